// When to have a turn.
import type { Schedule } from "./turns.ts";

/** So many calls have come alone before one is taken at its word. */
const SURE = 4;

/** Of so many that come alone, one looks all the same whether it still does. */
const LOOK = 32;

/**
 * Whoever comes alone has a turn at once. Where there are several, a zero timer collects what has already arrived, so that
 * they share a commit; it would cost a lone one a tenth of its time. Nobody says how many there are: what the last turns
 * had is all there is to go by.
 */
export function pace(): Schedule {
  /** Turns in a row that had no more than one call. */
  let alone = 0;
  const have = (turn: () => number): void => {
    alone = turn() > 1 ? 0 : alone + 1;
  };
  return (turn) => {
    if (alone < SURE || alone % LOOK === 0) setTimeout(() => have(turn), 0);
    else have(turn);
  };
}
