// The counter as it is, and who wrote to it last.
import { make, setText } from "../shared/dom.js";
import { shortOf } from "./fences.js";

const WRITES = 5;

const OUTCOMES = {
  written: () => "written",
  refused: () => "refused: older fence",
  overwrote: (lost) => `${updates(lost)} lost`,
};

export class CounterPanel {
  #panel;
  #writes = [];

  /** `now` as the counter says it. */
  constructor(panel, now) {
    this.#panel = panel;
    this.#show(now);
  }

  hear(event) {
    if (event.type !== "counter") return;
    this.#show(event.now);
    if (event.who) this.#add(event);
  }

  #show({ value, fence, checks }) {
    setText(this.#part("value"), String(value));
    setText(this.#part("seen"), fence > 0 ? shortOf(fence) : "none");
    this.#part("seen").title = fence > 0 ? String(fence) : "";
    this.#part("checks").checked = checks;
  }

  #add(news) {
    this.#writes.unshift(news);
    this.#writes.length = Math.min(this.#writes.length, WRITES);
    // All of them anew, in their places: nothing moves.
    this.#part("writes").replaceChildren(...this.#writes.map(lineOf));
  }

  #part(name) {
    return this.#panel.querySelector(`#${name}`);
  }
}

function lineOf({ who, outcome, value, lost }) {
  return make(
    "li",
    { className: `hue-${who.hue} ${outcome}` },
    make("span", { className: "person" }, who.name),
    make("span", { className: "figure" }, String(value)),
    make("span", { className: "outcome" }, OUTCOMES[outcome](lost)),
  );
}

export function updates(count) {
  return count === 1 ? "1 update" : `${count} updates`;
}
