// The parser of the metrics comes without types.
declare module "parse-prometheus-text-format" {
  /** The families of metrics in a text of the exposition format; null where it is none. */
  export default function parse(text: string): {
    readonly name: string;
    readonly help: string;
    readonly type: string;
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    readonly metrics: readonly any[];
  }[];
}
