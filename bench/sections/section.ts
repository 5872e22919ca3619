// What a section of the benchmark gives.
import type { Figure } from "../measure.ts";
import type { Kind, Service } from "../services/service.ts";
import type { Workerd } from "../workerd.ts";

/** A part of the benchmark that can be run alone, by its name. */
export interface Section {
  readonly name: string;
  readonly title: string;
  /** What the rows mean and how they came about, for the report. */
  readonly about: string;
  run(bench: Bench): Promise<Outcome>;
}

/** What all sections share. */
export interface Bench {
  readonly workerd: Workerd;
  /** Leasehold as clients over the network see it: on that workerd. */
  readonly service: Service;
  /** The peers that this machine has, running. */
  readonly peers: readonly (readonly [Kind, Service])[];
}

export interface Outcome {
  readonly rows: readonly Row[];
  readonly plots?: readonly Plot[];
}

/** One line of the table: something measured, beside somebody else's where there is one. */
export interface Row {
  readonly what: string;
  readonly unit: Unit;
  readonly ours: Figure | number;
  readonly peer?: { readonly name: string; readonly figure: Figure | number };
  readonly goal?: Goal;
}

export type Unit = "cycles/s" | "ms" | "µs" | "messages" | "rows" | "kB" | "instructions";

/** What the row must reach: of its ratio to the peer, or of the figure itself where there is no peer. */
export interface Goal {
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface Plot {
  readonly name: string;
  readonly title: string;
  readonly unit: Unit;
  readonly bars: readonly string[];
  readonly series: readonly { readonly name: string; readonly values: readonly number[] }[];
}
