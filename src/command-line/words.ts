// The words of a command: which there may be, and what they were.
import { parseArgs } from "node:util";
import { misused } from "./exit.ts";

export interface Option {
  readonly short?: string;
  /** What its value is called in the help. An option without one is given or not. */
  readonly value?: string;
  readonly help: string;
}

export type Options = Readonly<Record<string, Option>>;

export interface Command {
  readonly summary: string;
  /** The words after its name that are no options: `<required>`, `[optional]`, and `-- ...` where others may follow. */
  readonly words: string;
  /** Beside those of {@link COMMON} and `--help`. */
  readonly options: Options;
  /** More that the help says. */
  readonly more?: string;
  /** Whether it has no lease store to ask, and so none of {@link COMMON}. */
  readonly isLocal?: true;
  /** Resolves with the exit code. */
  run(words: Words): Promise<number>;
}

/** What every command takes that asks a lease store. */
export const COMMON: Options = {
  url: { value: "url", help: "the lease store; else LEASEHOLD_URL, else http://127.0.0.1:8787" },
  key: { value: "key", help: "others see it in ps: prefer LEASEHOLD_KEY or --key-file" },
  "key-file": { value: "path", help: "a file with the key in it, - for standard input" },
  space: { value: "name", help: "else LEASEHOLD_SPACE, else default" },
  json: { help: "print JSON, one object a line, errors too" },
};

function optionsOf(command: Command): Options {
  return {
    ...command.options,
    ...(command.isLocal ? {} : COMMON),
    help: { short: "h", help: "print this" },
  };
}

interface Given {
  readonly name: string;
  /** As it was written. */
  readonly rawName: string;
  readonly value?: string | undefined;
  /** Whether that is in the same word. */
  readonly inlineValue?: boolean | undefined;
}

/** In our words, since those of `strict` are about programming, and take a negative number for an option. */
function judge({ name, rawName, value, inlineValue }: Given, options: Options, command: Command) {
  if (!Object.hasOwn(options, name)) {
    const isAfter = command.words.includes("-- ");
    throw misused(
      `there is no option ${rawName}${isAfter ? ": what is of the command stands after --" : ""}`,
    );
  }
  const { value: what } = options[name]!;
  if (what === undefined && value !== undefined) throw misused(`${rawName} takes no value`);
  if (what === undefined) return;
  if (value === undefined) throw misused(`${rawName} needs a value: <${what}>`);
  if (inlineValue || !value.startsWith("--")) return;
  throw misused(
    `${rawName} needs a value, and ${value} looks like an option: ${rawName}=<${what}>`,
  );
}

export class Words {
  readonly #values: Readonly<Record<string, string | boolean | undefined>>;
  readonly #made = new Map<string, unknown>();
  /** The words that are no options. */
  readonly given: readonly string[];
  /** Those after `--`; undefined where there is none. */
  readonly rest: readonly string[] | undefined;

  private constructor(
    values: Readonly<Record<string, string | boolean | undefined>>,
    given: readonly string[],
    rest: readonly string[] | undefined,
  ) {
    this.#values = values;
    this.given = given;
    this.rest = rest;
  }

  /** Throws a Failure that names what is wrong. */
  static read(command: Command, all: readonly string[]): Words {
    const end = all.indexOf("--");
    const [args, rest] = end < 0 ? [all, undefined] : [all.slice(0, end), all.slice(end + 1)];
    const options = optionsOf(command);
    const types = Object.entries(options).map(([name, { short, value }]) => [
      name,
      { type: value === undefined ? "boolean" : "string", ...(short !== undefined && { short }) },
    ]);
    const { values, positionals, tokens } = parseArgs({
      args: [...args],
      options: Object.fromEntries(types) as Record<string, { type: "string" | "boolean" }>,
      strict: false,
      tokens: true,
    });
    for (const token of tokens) if (token.kind === "option") judge(token, options, command);
    return new Words(values, positionals, rest);
  }

  has(option: string): boolean {
    return this.#values[option] === true;
  }

  text(option: string): string | undefined {
    return this.#values[option] as string | undefined;
  }

  /** What `read` makes of the option's value, once: it may come from standard input. */
  value<T>(option: string, read: (text: string, option: string) => T): T | undefined {
    const text = this.text(option);
    if (text !== undefined && !this.#made.has(option)) {
      this.#made.set(option, read(text, `--${option}`));
    }
    return this.#made.get(option) as T | undefined;
  }

  /** The one word that must be given. */
  only(name: string): string {
    const [word, another] = this.given;
    if (word === undefined) throw misused(`${name} is missing`);
    if (another !== undefined) throw misused(`one word too many: ${another}`);
    return word;
  }

  /** The one word that may be given. */
  optional(name: string): string | undefined {
    return this.given.length === 0 ? undefined : this.only(name);
  }
}
