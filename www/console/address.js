// What the page shows is in its address, so that a view can be kept: never a key.

/** `{ space, prefix, lock }`, each a string or undefined. */
export function read() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const field = (name) => fields.get(name) ?? undefined;
  return { space: field("space"), prefix: field("prefix"), lock: field("lock") };
}

/** In place of the entry there is: going back leaves the page, and does not undo a filter letter by letter. */
export function write(view) {
  const hash = hashOf(view);
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

export function hashOf(view) {
  const given = Object.entries(view).filter(([, value]) => value !== undefined && value !== "");
  return `#${new URLSearchParams(given)}`;
}
