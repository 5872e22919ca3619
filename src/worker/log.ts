// What the service says of itself: one line of JSON each time, and never a token or a key in it.

export function log(
  level: "log" | "warn" | "error",
  line: Readonly<Record<string, unknown>>,
): void {
  console[level](JSON.stringify(line));
}
