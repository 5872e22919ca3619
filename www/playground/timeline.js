// The history of leases as bars, one row per client. All of it is drawn once where it belongs in time and then
// only moved: the right end of a bar is when the lease ends, and it leaps at each renewal.
import { make } from "../shared/dom.js";
import { shortOf } from "./fences.js";

/** How far a second goes, px. */
const SECOND = 12;

/** Older than this is taken away, s. */
const KEPT = 240;

/** How much of the width lies ahead. */
const AHEAD = 0.3;

export class Timeline {
  #tracks = new Map();
  #bars = new Map();
  #spans = new Map();
  #begin = performance.now();
  #width = 0;
  #scale = make("div", { className: "scale" });

  constructor(element) {
    element.append(this.#scale);
    new ResizeObserver(() => {
      this.#width = element.clientWidth;
      element.style.setProperty("--now", `${Math.round(this.#width * (1 - AHEAD))}px`);
      this.#number();
    }).observe(element);
    setInterval(() => this.#forget(), 10_000);
  }

  /** A client that has a row also while nothing is on it. */
  add(who) {
    this.#track(who).isKept = true;
  }

  hear(event) {
    const { type, who } = event;
    if (type === "granted") this.#grant(event);
    if (type === "renewed") this.#renew(event);
    if (type === "ended") this.#end(event);
    if (type === "counter" && who) this.#mark(who, event.outcome);
    if (type !== "client") return;
    const { isPaused, isCut, isDead } = event.news;
    if (isPaused !== undefined) this.#span(who, "pause", isPaused);
    if (isCut !== undefined) this.#span(who, "cut", isCut);
    if (isDead) this.#mark(who, "killed");
  }

  draw(now) {
    const shift = this.#width * (1 - AHEAD) - this.#x(now);
    for (const { track } of this.#tracks.values()) {
      track.style.transform = `translateX(${shift.toFixed(1)}px)`;
    }
    for (const span of this.#spans.values()) this.#stretch(span, now);
  }

  #grant({ who, fence, since, until }) {
    const element = make("i", { className: "lease" }, make("span", {}, shortOf(fence)));
    this.#place(who, element, since);
    const bar = { element, since };
    this.#stretch(bar, until);
    this.#bars.set(fence, bar);
  }

  #renew({ who, fence, until }) {
    const bar = this.#bars.get(fence);
    if (!bar) return;
    this.#stretch(bar, until);
    this.#place(who, make("i", { className: "renewal" }), performance.now());
  }

  #end({ fence, reason }) {
    const bar = this.#bars.get(fence);
    if (!bar) return;
    this.#stretch(bar, performance.now());
    bar.element.classList.add(reason ?? "over");
    this.#bars.delete(fence);
  }

  /** Something that lasts: "pause", "cut". */
  #span(who, kind, isOn) {
    const key = `${who.id} ${kind}`;
    if (!isOn) return this.#spans.delete(key);
    const element = make("i", { className: kind });
    const since = performance.now();
    this.#place(who, element, since);
    this.#spans.set(key, { element, since });
  }

  /** Something at this instant: "written", "refused", "overwrote", "killed". */
  #mark(who, kind) {
    this.#place(who, make("i", { className: `mark ${kind}` }), performance.now());
  }

  #x(instant) {
    return ((instant - this.#begin) / 1000) * SECOND;
  }

  #place(who, element, instant) {
    element.style.left = `${this.#x(instant).toFixed(1)}px`;
    this.#track(who).track.append(element);
  }

  #stretch({ element, since }, until) {
    element.style.width = `${Math.max(2, this.#x(until) - this.#x(since)).toFixed(1)}px`;
  }

  #track(who) {
    const known = this.#tracks.get(who.id);
    if (known) return known;
    const track = make("div", { className: "track" });
    const row = make(
      "div",
      { className: `row hue-${who.hue}` },
      make("span", { className: "name" }, who.name),
      make("div", { className: "window" }, track),
    );
    this.#scale.before(row);
    const made = { track, row, isKept: false };
    this.#tracks.set(who.id, made);
    return made;
  }

  /** What stands still: how long ago, how soon. */
  #number() {
    const now = this.#width * (1 - AHEAD);
    const labels = [];
    for (let x = now % (10 * SECOND); x < this.#width; x += 10 * SECOND) {
      const seconds = Math.round((x - now) / SECOND);
      const text = seconds === 0 ? "now" : seconds < 0 ? `${-seconds} s ago` : `in ${seconds} s`;
      const label = make("span", {}, text);
      label.style.left = `${Math.round(x)}px`;
      // What would be cut at the edge is left out.
      if (x > 30 && x < this.#width - 30) labels.push(label);
    }
    this.#scale.replaceChildren(...labels);
  }

  /** What nobody sees any more. */
  #forget() {
    const oldest = this.#x(performance.now() - KEPT * 1000);
    for (const [id, { track, row, isKept }] of this.#tracks) {
      for (const element of [...track.children]) {
        const end = parseFloat(element.style.left) + (parseFloat(element.style.width) || 0);
        if (end < oldest) element.remove();
      }
      if (isKept || track.childElementCount > 0) continue;
      row.remove();
      this.#tracks.delete(id);
    }
  }
}
