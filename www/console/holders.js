// How a holder looks, in the list and beside it.
import { make } from "../shared/dom.js";
import { shown } from "./names.js";

/** One of the colours of www/style.css for each client: the same wherever it shows. */
const HUES = 8;

/** The fence, as a token in the colour of its client. */
export function tokenOf({ fence, clientId = "" }) {
  return make("span", { className: `token hue-${hash(clientId) % HUES}` }, String(fence));
}

export function clientOf({ clientId }) {
  if (clientId === undefined) return make("span", { className: "soft" }, "no name");
  return shown(clientId);
}

function hash(text) {
  let hash = 0;
  for (let at = 0; at < text.length; at += 1) hash = (31 * hash + text.charCodeAt(at)) >>> 0;
  return hash;
}
