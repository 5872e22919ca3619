// What the page says.
import { spelled } from "./names.js";

const grouped = new Intl.NumberFormat("en");

/** How many locks there are, are held, and how many wait. */
export function countsOf({ count, held, waiting }) {
  const what = count === 1 ? "lock" : "locks";
  const [all, some, more] = [count, held, waiting].map(grouped.format);
  return `${all} ${what}, ${some} held, ${more} waiting`;
}

/** Why there is nothing to see. */
export function emptyOf(prefix) {
  return prefix === ""
    ? "Nobody holds or awaits a lock in this space."
    : "No lock that starts like this is held or awaited.";
}

/** Why the store will not have us. */
export function refusalOf(error, space, hasKey) {
  if (isUnknown(error)) {
    return hasKey ? "The store does not know this key." : "This store asks for a key.";
  }
  if (isForbidden(error)) {
    return `This key may not read the space ${spelled(space)}: that takes the right read there.`;
  }
  return sentence(error.message);
}

/** Of what an error says. */
export function sentence(message) {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/** Whether another key may help. */
export function isAboutKey(error) {
  return isUnknown(error) || isForbidden(error);
}

function isUnknown({ status, code }) {
  return status === 401 || code === "unauthorized";
}

function isForbidden({ status, code }) {
  return status === 403 || code === "forbidden";
}
