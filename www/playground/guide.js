// The guided minute: short steps that say what to press and what to see. They go on by themselves when what they say
// was done, and back when what they need is no more.
import { make, part, setText } from "../shared/dom.js";
import { stepsFor } from "./steps.js";

/** What stands in the way for a moment only is not worth a word, ms. */
const MOMENT_MS = 400;

export class Guide {
  #world;
  #steps;
  #at = 0;
  #marked;
  #elements;
  /** What has to be done first, in place of the step. */
  #instead = make("li");
  #looking;
  #count = part("step-count");
  #go = part("step-go");
  #again = part("step-again");

  /** Of the first two of the page's `cards`, and the box that switches the comparison; `onStart` puts everything back. */
  constructor(cards, checks, onStart) {
    this.#world = { cards, checks, store: { holder: undefined, waiters: [] } };
    this.#steps = stepsFor(cards[0], cards[1], this.#world);
    // All of them in one place, so that none is taller than there is room for.
    this.#elements = this.#steps.map(({ text }) => make("li", {}, text));
    part("steps").replaceChildren(...this.#elements, this.#instead);
    this.#go.addEventListener("click", () => this.#marked?.focus());
    this.#again.addEventListener("click", () => {
      onStart();
      this.#begin(0);
      // This button is gone now.
      this.#go.focus();
    });
    this.#begin(0);
  }

  hear(event) {
    if (event.type === "state") this.#world.store = event;
    const at = this.#next(event);
    if (at !== this.#at) this.#begin(at);
    this.#lookSoon();
  }

  /** Where the guide is after that. */
  #next(event) {
    const steps = this.#steps;
    const shown = steps.findIndex(({ shows }, index) => index >= this.#at && shows?.(event));
    if (shown >= 0) return shown + 1;
    let at = steps[this.#at].spoils?.(event) ? 0 : this.#at;
    if (steps[at].until?.(event)) at += 1;
    while (steps[at].needs?.() === false) at -= 1;
    while (steps[at].isDone?.()) at += 1;
    return at;
  }

  #begin(at) {
    this.#at = at;
    setText(this.#count, `Step ${at + 1} of ${this.#steps.length}`);
    const { text, press } = this.#steps[at];
    this.#show(this.#elements[at], text, press?.());
    this.#lookSoon();
  }

  #lookSoon() {
    this.#looking ??= setTimeout(() => {
      this.#looking = undefined;
      this.#look();
    }, MOMENT_MS);
  }

  /** Shows what stands in the way, or the step where nothing does. */
  #look() {
    const { text, press, obstacle } = this.#steps[this.#at];
    const found = obstacle?.();
    if (!found) return this.#show(this.#elements[this.#at], text, press?.());
    setText(this.#instead, found.text);
    this.#show(this.#instead, found.text, found.press);
  }

  #show(shown, text, button) {
    for (const element of [...this.#elements, this.#instead]) {
      if (element === shown) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
    }
    setText(part("step-said"), text);
    this.#marked?.classList.remove("next");
    this.#marked = button;
    button?.classList.add("next");
    // Their places are kept.
    this.#go.classList.toggle("away", !button);
    this.#again.classList.toggle("away", this.#at === 0);
  }
}
