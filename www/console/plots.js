// Counts and waits of the last minutes, as numbers and small lines.
import { setAttribute, setText } from "../shared/dom.js";
import { lengthOf } from "../shared/time.js";
import { History, PERIOD_MS } from "./metrics.js";

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const rate = (value) => (value < 10 ? precise : grouped).format(value);

/** How a value of each plot is written. */
const FORMATS = {
  held: grouped.format,
  queue: grouped.format,
  grantsPerSecond: rate,
  waitSeconds: (value) => lengthOf(value * 1_000),
};

/** Of the drawings. */
const [WIDTH, HEIGHT] = [60, 28];

/** So many samples take all of the width at least: the first ones are not lost in a corner. */
const FEWEST = 13;

export class Plots {
  #history = new History();
  #plots;
  #session;
  #timer;
  #onRefused;

  /** `parent` holds a figure for each. `onRefused` hears that the key is of no use any more. */
  constructor(parent, onRefused) {
    this.#plots = [...parent.children].map((figure) => new Plot(figure));
    this.#onRefused = onRefused;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) void this.#again();
    });
  }

  /** Begins anew with this space. Rejects where its metrics may not be read, or cannot. */
  async begin(session) {
    this.stop();
    this.#session = session;
    try {
      await this.#sample(session);
    } finally {
      if (session === this.#session) this.#timer = setInterval(() => this.#again(), PERIOD_MS);
    }
  }

  /** Shows nothing any more. */
  stop() {
    clearInterval(this.#timer);
    this.#session = undefined;
    this.#history = new History();
    for (const plot of this.#plots) plot.show(this.#history);
  }

  /** Metrics have no push: they are read again and again, as Prometheus does, while somebody looks. */
  async #again() {
    const session = this.#session;
    if (!session || document.hidden) return;
    try {
      await this.#sample(session);
    } catch (error) {
      const isRefused = error.status === 401 || error.status === 403;
      if (isRefused && session === this.#session) this.#onRefused(error);
    }
  }

  async #sample(session) {
    const text = await session.metrics(AbortSignal.timeout(PERIOD_MS));
    if (session !== this.#session) return;
    this.#history.take(text, performance.now());
    for (const plot of this.#plots) plot.show(this.#history);
  }
}

class Plot {
  #name;
  #label;
  #format;
  #value;
  #drawing;
  #area;
  #line;

  constructor(figure) {
    const find = (selector) => figure.querySelector(selector);
    this.#name = figure.dataset.plot;
    this.#label = find("figcaption").textContent;
    this.#format = FORMATS[this.#name];
    this.#value = find(".value");
    this.#drawing = find("svg");
    this.#area = find(".area");
    this.#line = find(".line");
  }

  show(history) {
    const values = history[this.#name];
    const known = values.filter((value) => value !== null);
    const latest = values.at(-1) ?? null;
    setText(this.#value, latest === null ? "–" : this.#format(latest));
    const [line, area] = pathsOf(values, Math.max(1e-9, ...known));
    setAttribute(this.#line, "d", line);
    setAttribute(this.#area, "d", area);
    const range =
      known.length === 0
        ? "nothing yet"
        : `from ${this.#format(Math.min(...known))} to ${this.#format(Math.max(...known))}`;
    setAttribute(
      this.#drawing,
      "aria-label",
      `${this.#label}, the latest ${values.length} samples: ${range}`,
    );
  }
}

/** A line, and what is below it; the latest value is at the right, and gaps stay gaps. */
function pathsOf(values, top) {
  const step = WIDTH / (Math.max(values.length, FEWEST) - 1);
  let [line, area] = ["", ""];
  values.forEach((value, at) => {
    if (value === null) return;
    const [x, y] = [
      WIDTH - step * (values.length - 1 - at),
      HEIGHT - 1.5 - ((HEIGHT - 3) * value) / top,
    ];
    const isFirst = (values[at - 1] ?? null) === null;
    const isLast = (values[at + 1] ?? null) === null;
    // A value alone is a short line.
    line += isFirst ? `M${x - 0.4} ${y}L${x} ${y}` : `L${x} ${y}`;
    area += isFirst ? `M${x - 0.4} ${HEIGHT}L${x - 0.4} ${y}L${x} ${y}` : `L${x} ${y}`;
    if (isLast) area += `L${x} ${HEIGHT}Z`;
  });
  return [line, area];
}
