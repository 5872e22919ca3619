// Who a client is: a name and a colour that no other client of this browser has at this lock.

const NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana"];

/** How many clients there can be. */
export const MOST = NAMES.length;

/** Takes the first name that no tab has, for as long as this page lives; `undefined` where none is left. */
export async function nextPerson(lock) {
  for (const [hue, name] of NAMES.entries()) {
    if (await isOurs(`leasehold-playground ${lock} ${name}`)) {
      return { name, hue, id: `${name}-${Math.random().toString(36).slice(2, 8)}` };
    }
  }
  return undefined;
}

/** Whoever the store names, as far as it can be believed: anybody may take part and say anything. */
export function personOf({ clientId = "", info }) {
  const { name, hue } = Object(info);
  return {
    id: clientId,
    name:
      typeof name === "string" && name !== ""
        ? name.slice(0, 20)
        : clientId.slice(0, 8) || "Somebody",
    hue: Number.isInteger(hue) && hue >= 0 && hue < NAMES.length ? hue : NAMES.length - 1,
  };
}

/** The browser's own locks, which end with the page, see to it; where it has none, this page is alone. */
function isOurs(name) {
  if (!navigator.locks) return !taken.has(name) && taken.add(name);
  return new Promise((resolve) => {
    void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock && new Promise(() => {});
    });
  });
}

const taken = new Set();
