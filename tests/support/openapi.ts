// The OpenAPI document as a judge: whether a response is one that it says there is.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Json } from "./store.ts";

export const document: Json = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../src/worker/openapi.json"), "utf8"),
);

const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema(document, "openapi");
const validators = new Map<string, ValidateFunction>();

/** An operation of the document. */
export interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** Where it is in the document. */
  readonly pointer: string;
  readonly content: Json;
}

export const operations: readonly Operation[] = Object.entries<Json>(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries<Json>(methods).map(([method, content]) => ({
      id: content.operationId,
      method: method.toUpperCase(),
      path,
      pointer: `/paths/${escaped(path)}/${method}`,
      content,
    })),
);

export function operation(id: string): Operation {
  return operations.find((operation) => operation.id === id)!;
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** What is at a pointer, and where that really is: references are followed. */
export function at(pointer: string): readonly [pointer: string, content: Json] {
  const names = pointer.split("/").slice(1);
  const content = names.reduce(
    (content, name) => content?.[name.replaceAll("~1", "/").replaceAll("~0", "~")],
    document,
  );
  return content?.$ref?.startsWith("#") ? at(content.$ref.slice(1)) : [pointer, content];
}

/** Whether a value is what the schema at that pointer says. */
export function assertValid(pointer: string, value: unknown, what: string): void {
  let validate = validators.get(pointer);
  if (!validate) {
    const place = pointer.replaceAll("{", "%7B").replaceAll("}", "%7D");
    validators.set(pointer, (validate = ajv.compile({ $ref: `openapi#${place}` })));
  }
  assert.ok(
    validate(value),
    `${what}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`,
  );
}

export interface Response {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** `operation status type`, for each response that the document says there is. */
export function documented(): Set<string> {
  const all = new Set<string>();
  for (const { id, content, pointer } of operations) {
    for (const status of Object.keys(content.responses)) {
      const [, response] = at(`${pointer}/responses/${status}`);
      for (const type of Object.keys(response.content ?? { none: {} })) {
        all.add(`${id} ${status} ${type}`);
      }
    }
  }
  return all;
}

/** Fails where the document says no such thing; else the response's name in {@link documented}. */
export function judged({ id, pointer }: Operation, { status, headers, text }: Response): string {
  const what = `${id} ${status}`;
  const [place, response] = at(`${pointer}/responses/${status}`);
  assert.ok(response, `${what} is not documented: ${text}`);
  for (const name of Object.keys(response.headers ?? {})) {
    const [headerPlace, header] = at(`${place}/headers/${escaped(name)}`);
    const value = headers.get(name);
    if (value !== null) assertValid(`${headerPlace}/schema`, value, `${what} ${name}`);
    else assert.ok(!header.required, `${what} has no ${name}`);
  }
  if (response.content === undefined) return `${what} none`;
  const type = headers.get("content-type")?.split(";")[0] ?? "";
  assert.ok(response.content[type], `${what} is ${type}`);
  const isJson = type.endsWith("json");
  const schema = `${place}/content/${escaped(type)}/schema`;
  assertValid(schema, isJson ? JSON.parse(text) : text, what);
  return `${what} ${type}`;
}
