// What the guided minute leads through, for two clients. A step says what to press, when it is done, what it needs to
// make sense, and what may stand in its way.
import { Obstacles } from "./obstacles.js";

const holds = ({ state }) => state.phase === "holding";
const standsWithIt = (card) => holds(card) && card.state.isPaused;
const isInLine = ({ state }) => state.phase === "waiting" || state.phase === "holding";
const isAlive = ({ state }) => !state.isDead;

const wrote =
  (card, outcome) =>
  ({ type, ...event }) =>
    type === "counter" && event.who?.id === card.who.id && event.outcome === outcome;

/**
 * Each has a `text`, and what of this applies: `press`, the button to be pressed; `isDone()`, or where it is
 * something that happens, `until(event)`; `needs()`, without which the guide goes back; `obstacle()`, what is to be
 * done first; `shows(event)`, what the steps before it lead to, and which ends them whenever it happens; `spoils(event)`,
 * after which it has to begin anew. `world` is what the page knows: its `cards`, the box `checks`, and the `store`'s
 * latest `{ holder, waiters }`.
 */
export function stepsFor(one, two, world) {
  const [A, B] = [one.who.name, two.who.name];
  const { checks } = world;
  const isKnown = ({ who: { id } }) =>
    world.store.holder?.who.id === id || world.store.waiters.some((waiter) => waiter.id === id);
  const obstacles = new Obstacles(world);
  return [
    {
      text: `Press “Acquire” on ${A}. The store grants it a lease: the lock for some seconds, under a number, the fence. ${A} renews while it works: see the time leap.`,
      press: () => one.buttons.acquire,
      isDone: () => holds(one) && world.store.holder?.who.id === one.who.id,
      obstacle: () => obstacles.unchecked() ?? obstacles.unready(one) ?? obstacles.taken(one),
    },
    {
      text: `Press “Wait” on ${B}. It gets a place in the queue, and will be told.`,
      press: () => two.buttons.wait,
      isDone: () => isInLine(two) && isKnown(two),
      needs: () => holds(one),
      obstacle: () => obstacles.unready(two),
    },
    {
      text: `Press “Pause” on ${A}. Its thread stops, as in a long garbage collection or under a closed lid: just when it has seen that it holds the lock, and is about to write.`,
      press: () => one.buttons.pause,
      isDone: () => standsWithIt(one),
      needs: () => holds(one) && isInLine(two),
    },
    {
      text: `Watch. No renewal comes, time runs out, and ${B} has the lock under a larger fence. ${A} knows nothing of it.`,
      until: wrote(two, "written"),
      needs: () => standsWithIt(one) && isInLine(two),
      obstacle: () => obstacles.unready(two) ?? obstacles.elsewhere(),
    },
    {
      text: `Press “Wake” on ${A}. The first thing it does is to write, with its old fence.`,
      press: () => one.buttons.pause,
      // Once it is awake, its write is under way.
      needs: () => isAlive(one),
      shows: wrote(one, "refused"),
      spoils: wrote(one, "overwrote"),
      obstacle: () => obstacles.unchecked(),
    },
    {
      text: `Refused: the counter had seen a larger fence. It was this comparison that saved it, not the lock. Switch “Compare fences” off, and see it without.`,
      press: () => checks,
      isDone: () => !checks.checked,
    },
    {
      text: `Press “Wait” on ${A}, so that somebody is next.`,
      press: () => one.buttons.wait,
      isDone: () => holds(two) && isInLine(one) && isKnown(one),
      needs: () => !checks.checked,
      obstacle: () =>
        holds(two)
          ? obstacles.unready(one)
          : (obstacles.unready(two) ?? obstacles.taken(two) ?? obstacles.without(two)),
    },
    {
      text: `Press “Pause” on ${B}.`,
      press: () => two.buttons.pause,
      isDone: () => standsWithIt(two),
      needs: () => !checks.checked && holds(two) && isInLine(one),
    },
    {
      text: `Watch. ${B}'s time runs out; ${A} has the lock, and counts on.`,
      until: wrote(one, "written"),
      needs: () => !checks.checked && standsWithIt(two) && isInLine(one),
      obstacle: () => obstacles.unready(one) ?? obstacles.elsewhere(),
    },
    {
      text: `Press “Wake” on ${B}. Nothing stops its write now.`,
      press: () => two.buttons.pause,
      needs: () => !checks.checked && isAlive(two),
      shows: wrote(two, "overwrote"),
    },
    {
      text: `Updates are lost, though both held a lease and looked before they wrote. So send the fence with every write, and have it compared. Now try the rest: cut off, kill, another tab.`,
    },
  ];
}
