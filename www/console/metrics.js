// What a space's metrics say, from the text that Prometheus reads. No DOM here.

/** So many samples are kept: five minutes. */
const SAMPLES = 60;
export const PERIOD_MS = 5_000;

const SAMPLE = /^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+-]+|NaN|[+-]Inf)$/gm;

/** By name and labels as they are written. */
export function parse(text) {
  return new Map([...text.matchAll(SAMPLE)].map(([, name, value]) => [name, Number(value)]));
}

/** What is shown of the latest samples, each a list of numbers, or null where there is none to tell. */
export class History {
  held = [];
  queue = [];
  grantsPerSecond = [];
  waitSeconds = [];
  #before;

  take(text, now) {
    const samples = parse(text);
    const value = (name) => samples.get(`leasehold_${name}`) ?? 0;
    const latest = {
      now,
      startedAt: value("start_time_seconds"),
      grants: value('grants_total{after="asking"}') + value('grants_total{after="waiting"}'),
      waits: value("wait_seconds_count"),
      waitedSeconds: value("wait_seconds_sum"),
    };
    // Counters begin anew with their object.
    const before = this.#before?.startedAt === latest.startedAt ? this.#before : undefined;
    this.#before = latest;
    this.#push("held", value("held_leases"));
    this.#push("queue", value("queue_length"));
    this.#push("grantsPerSecond", before ? perSecond(before, latest) : null);
    this.#push("waitSeconds", before ? mean(before, latest) : null);
  }

  #push(name, value) {
    this[name] = [...this[name], value].slice(-SAMPLES);
  }
}

function perSecond(before, latest) {
  return (latest.grants - before.grants) / Math.max(0.001, (latest.now - before.now) / 1_000);
}

function mean(before, latest) {
  const waits = latest.waits - before.waits;
  return waits > 0 ? (latest.waitedSeconds - before.waitedSeconds) / waits : null;
}
