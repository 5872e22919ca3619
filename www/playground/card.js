// A client's card: what it believes, and what can be done to it.
import { isUsable, make, part, setText, setUsable } from "../shared/dom.js";
import { shortOf } from "./fences.js";

const chosenTtlMs = () => Number(part("ttl").value);

/** What a client says when it does nothing. */
const NOTES = {
  released: () => "Gave the lock back",
  refused: () => "Refused: somebody has it",
  left: () => "Left the queue",
  lost: ({ fence }) => `Noticed that ${shortOf(fence)} is over`,
};

export class Card {
  who;
  element;
  buttons = {};
  #start;
  #hear;
  #gate;
  #worker;
  #state;
  #line = make("p", { className: "state" });

  /** `start` is what a client needs to know; `hear` is told what happens to this one. */
  constructor(who, start, hear) {
    this.who = who;
    this.#start = start;
    this.#hear = hear;
    this.element = this.#build();
    this.#revive();
  }

  get state() {
    return this.#state;
  }

  /** As it was in the beginning: awake, connected, and without the lock. */
  rest() {
    if (this.#state.isDead) return this.#begin();
    if (this.#state.isPaused) this.#wake();
    if (this.#state.isCut) this.#cut(false);
    this.#order("release");
  }

  #revive() {
    this.#state = { phase: "idle", isPaused: false, isCut: false, isDead: false, note: undefined };
    // Without isolation from other pages nothing can be shared, and there is no pausing.
    this.#gate = globalThis.crossOriginIsolated
      ? new Int32Array(new SharedArrayBuffer(4))
      : undefined;
    this.#worker = new Worker("/playground/client.js", { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#take(data));
    this.#order("start", { ...this.#start, who: this.who, gate: this.#gate });
    this.#show();
  }

  #build() {
    const { name, hue } = this.who;
    const button = (key, text, act) => {
      const label = make("span", {}, text);
      const element = make(
        "button",
        { type: "button" },
        label,
        make("span", { className: "unseen" }, ` ${name}`),
      );
      element.addEventListener("click", () => isUsable(element) && act());
      this.buttons[key] = element;
      return element;
    };
    const title = make("h3", { id: `client-${name}` }, name);
    return make(
      "article",
      { className: `client hue-${hue}`, "aria-labelledby": title.id },
      make("span", { className: "disc", "aria-hidden": "true" }, name[0]),
      make("div", { className: "who" }, title, this.#line),
      make(
        "div",
        { className: "orders" },
        button("acquire", "Acquire", () => this.#order("acquire", { ttlMs: chosenTtlMs() })),
        button("wait", "Wait", () => this.#order("wait", { ttlMs: chosenTtlMs() })),
        button("release", "Release", () => this.#order("release")),
        button("pause", "Pause", () => (this.#state.isPaused ? this.#wake() : this.#pause())),
        button("cut", "Cut off", () => this.#cut(!this.#state.isCut)),
        button("kill", "Kill", () => (this.#state.isDead ? this.#begin() : this.#kill())),
      ),
    );
  }

  #order(order, more = {}) {
    this.#worker.postMessage({ order, ...more });
  }

  #pause() {
    Atomics.store(this.#gate, 0, 1);
    this.#order("pause");
  }

  #wake() {
    Atomics.store(this.#gate, 0, 0);
    Atomics.notify(this.#gate, 0);
  }

  #cut(isCut) {
    this.#order(isCut ? "cut" : "mend");
    this.#take({ isCut });
  }

  #kill() {
    this.#worker.terminate();
    this.#take({ isDead: true, isPaused: false, isCut: false, phase: "idle" });
  }

  #begin() {
    this.#revive();
    this.#hear({ type: "client", who: this.who, news: { isDead: false } });
  }

  #take(news) {
    this.#state = { ...this.#state, ...news };
    this.#show();
    this.#hear({ type: "client", who: this.who, news });
  }

  #show() {
    const { phase, isPaused, isCut, isDead } = this.#state;
    const isAwake = !isDead && !isPaused;
    setText(this.#line, this.#words());
    this.element.dataset.phase = phase;
    this.element.dataset.look = isDead ? "dead" : isPaused ? "paused" : isCut ? "cut" : phase;
    const use = (key, usable) => setUsable(this.buttons[key], usable);
    const name = (key, text) => setText(this.buttons[key].firstChild, text);
    use("acquire", isAwake && phase === "idle");
    use("wait", isAwake && phase === "idle");
    use("release", isAwake && (phase === "holding" || phase === "waiting"));
    name("release", phase === "waiting" ? "Leave" : "Release");
    use("pause", !isDead && this.#gate !== undefined);
    name("pause", isPaused ? "Wake" : "Pause");
    use("cut", isAwake);
    name("cut", isCut ? "Mend" : "Cut off");
    name("kill", isDead ? "Start" : "Kill");
  }

  #words() {
    const { phase, fence, isPaused, isCut, isDead, note } = this.#state;
    if (isDead) return "Killed: it gave nothing back";
    const has =
      phase === "holding"
        ? `${isPaused || isCut ? "believes in" : "Holds"} ${shortOf(fence)}`
        : undefined;
    if (isPaused) return has ? `Stands still, ${has}` : "Stands still";
    if (isCut) return has ? `Cut off, ${has}` : `Cut off from the store`;
    if (has) return `${has} and counts`;
    if (phase === "asking") return "Asks the store";
    if (phase === "waiting") return "Waits in the queue";
    return note ? (NOTES[note]?.(this.#state) ?? note) : "Does nothing";
  }
}
