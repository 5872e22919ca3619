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

export class Words {
  readonly #values: Readonly<Record<string, string | boolean | undefined>>;
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
    const options = Object.entries(optionsOf(command)).map(([name, { short, value }]) => [
      name,
      { type: value === undefined ? "boolean" : "string", ...(short !== undefined && { short }) },
    ]);
    try {
      const { values, positionals } = parseArgs({
        args: [...args],
        options: Object.fromEntries(options) as Record<string, { type: "string" | "boolean" }>,
        allowPositionals: true,
      });
      return new Words(values as Record<string, string | boolean>, positionals, rest);
    } catch (error) {
      // The rest of its first sentence is about programming.
      throw misused((error as Error).message.split(". ")[0]!.replaceAll("\n", ": "));
    }
  }

  has(option: string): boolean {
    return this.#values[option] === true;
  }

  text(option: string): string | undefined {
    return this.#values[option] as string | undefined;
  }

  /** What `read` makes of the option's value. */
  value<T>(option: string, read: (text: string, option: string) => T): T | undefined {
    const text = this.text(option);
    return text === undefined ? undefined : read(text, `--${option}`);
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
