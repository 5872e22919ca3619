// Fences as they are shown: sixteen digits, since they begin at the store's clock, of which the first say nothing.

let first;
let digits = 4;

/** So many of the last digits as tell it from every other fence seen so far, so that one sees which is larger. */
export function shortOf(fence) {
  const text = String(fence).padStart(16, "0");
  first ??= text;
  while (text.slice(0, -digits) !== first.slice(0, -digits)) digits += 1;
  // Joined, so that no line ends in between.
  return `…\u2060${text.slice(-digits)}`;
}
