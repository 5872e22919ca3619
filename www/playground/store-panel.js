// What the store knows of the lock: who holds it, for how long still, under which fence, and who waits.
import { make, part, setText } from "../shared/dom.js";
import { lengthOf } from "../shared/time.js";
import { shortOf } from "./fences.js";

/** So many fences are shown, the newest first. */
const FENCES = 3;

const KNOWN = "What it knows, whatever anybody believes.";
const LOST = "As known last: the connection is lost.";

export class StorePanel {
  #panel;
  #holder;
  #fences = [];
  /** As it is shown; at first nothing is known. */
  #queue;

  constructor(panel) {
    this.#panel = panel;
  }

  hear(event) {
    if (event.type === "granted") this.#showFence(event);
    if (event.type === "state") this.#showState(event);
  }

  /** While the connection is lost, what was known last is shown as such. */
  show(link) {
    this.#panel.dataset.link = link;
    setText(part("store-note"), link === "lost" ? LOST : KNOWN);
  }

  draw(now) {
    const left = this.#holder ? Math.max(0, this.#holder.until - now) : 0;
    const share = this.#holder ? Math.min(1, left / this.#holder.fullMs) : 0;
    part("gauge").style.transform = `scaleX(${share.toFixed(4)})`;
    setText(part("left"), this.#holder ? lengthOf(left) : "–");
  }

  #showFence({ who, fence }) {
    this.#fences.unshift({ who, fence });
    this.#fences.length = Math.min(this.#fences.length, FENCES);
    const tokens = this.#fences.map(({ who: { hue }, fence }) =>
      make("li", { className: `token hue-${hue}`, title: String(fence) }, shortOf(fence)),
    );
    part("fences").replaceChildren(...tokens);
  }

  #showState({ holder, waiters }) {
    this.#holder = holder;
    this.#panel.className = `panel ${holder ? `held hue-${holder.who.hue}` : ""}`;
    setText(part("holder"), holder ? holder.who.name : "Nobody");
    const queue = waiters.map(({ id }) => id).join();
    if (queue === this.#queue) return;
    this.#queue = queue;
    const places = waiters.map(({ name, hue }) => make("li", { className: `hue-${hue}` }, name));
    const nobody = make("li", { className: "soft" }, "Nobody waits");
    part("queue").replaceChildren(...(places.length > 0 ? places : [nobody]));
  }
}
