// What the sections measure: a lock service, whoever makes it.

/** How a service is started, and how a client of it is made, also by another process. */
export interface Kind {
  readonly name: string;
  /** The program that has to be there. */
  readonly program: string;
  /** Whether a client counts its own messages, or those of all clients. */
  readonly counts: "apart" | "together";
  /** Whether who waits is told, and says nothing meanwhile, or asks again and again. */
  readonly waiters: "are told" | "ask";
  start(): Promise<Service>;
  connect(address: string): Promise<Client>;
}

export interface Service {
  /** What of it is used, and at which settings: its defaults, unless this says otherwise. */
  readonly used: string;
  /** Where clients find it. */
  readonly address: string;
  stop(): Promise<void>;
}

/** One client, with a connection of its own, as another process would have. */
export interface Client {
  /** Waits until it has the lock. A length that is not given is the service's default. */
  acquire(lock: string, ttlMs?: number): Promise<Release>;
  /** How many messages the server has sent so far: see {@link Kind.counts}. */
  messages(): number | Promise<number>;
  close(): Promise<void>;
}

export type Release = () => Promise<void>;
