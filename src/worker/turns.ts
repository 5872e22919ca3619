// What arrives in one turn of the event loop goes to the core as one batch: one crossing into
// WebAssembly and, in the Durable Object, one commit. The in-process store of the npm package uses
// the same class over another core.

/**
 * Something asked of the core. `lock` and `fields` are as the caller gave them: the core judges them. `caller` is on whose
 * behalf, where that is not the account's own code.
 */
export type Call = readonly [
  ticket: number,
  op: string,
  lock: unknown,
  fields: unknown,
  caller?: string,
];

/** An HTTP status, and the reply's fields in the form that the core makes. */
export type Answer<Reply> = readonly [status: number, reply: Reply];

/** A message to whoever goes by that number: as text to a socket. */
export type Push<Message = string> = readonly [connection: number, message: Message];

/** What a turn came to. */
export interface Turned<Reply, Message = string> {
  /** Answers to calls of this turn or of earlier ones. A call that waits is not among them yet. */
  readonly answers: Iterable<readonly [ticket: number, ...Answer<Reply>]>;
  /** Somebody waits for something that may be due then; null when nobody does. */
  readonly wakeInMs: number | null;
  /** What sockets are told without having asked: to be sent after the answers. */
  readonly pushes?: Iterable<Push<Message>>;
  /** The core started anew before this turn: it knows nothing of the tickets of earlier turns. */
  readonly restarted?: boolean;
}

/** Where decisions are made: synchronously, and durably before it returns. */
export interface Core<Reply, Message = string> {
  /**
   * Carries out the calls of a turn, in order, and whatever is due by itself. Where it throws, nothing
   * of the turn is told to anybody; the core then forgets what it knew and starts anew by itself.
   */
  turn(calls: readonly Call[]): Turned<Reply, Message>;
  /** What a caller is told whose call may or may not have been carried out. */
  readonly unavailable: Answer<Reply>;
}

/** Has `turn` had now or soon; that gives how many calls it had. */
export type Schedule = (turn: () => number) => void;

export class Turns<Reply, Message = string> {
  readonly #core: Core<Reply, Message>;
  readonly #onPush: (...push: Push<Message>) => void;
  /**
   * Those who await an answer, by ticket; tickets only grow. No Map: V8 has the table of one that is churned point to the
   * next, and so what was in them outlives every collection of young garbage.
   */
  readonly #open: Record<number, (answer: Answer<Reply>) => void> = {};
  #lastTicket = 0;
  #calls: Call[] = [];
  /** Those who await the next turn itself. */
  #onlookers: (() => void)[] = [];
  #isSet = false;
  #isInTurn = false;
  readonly #schedule: Schedule;
  #wake: ReturnType<typeof setTimeout> | undefined;

  /**
   * By `schedule` a turn collects the calls that have already arrived: by a zero timer unless given. A microtask would
   * collect none.
   */
  constructor(
    core: Core<Reply, Message>,
    onPush: (...push: Push<Message>) => void = () => {},
    schedule: Schedule = (turn) => setTimeout(turn, 0),
  ) {
    this.#core = core;
    this.#onPush = onPush;
    this.#schedule = schedule;
  }

  /** Asks in the next turn. Never rejects. */
  call(op: string, lock: unknown, fields: unknown, caller?: string): Promise<Answer<Reply>> {
    return new Promise((resolve) => this.post(op, lock, fields, resolve, caller));
  }

  /** As {@link call}. `onAnswer` is called before anything of the same turn is pushed. */
  post(
    op: string,
    lock: unknown,
    fields: unknown,
    onAnswer: (answer: Answer<Reply>) => void,
    caller?: string,
  ): void {
    const ticket = ++this.#lastTicket;
    this.#open[ticket] = onAnswer;
    this.#calls.push(
      caller === undefined ? [ticket, op, lock, fields] : [ticket, op, lock, fields, caller],
    );
    this.#setTurn();
  }

  /** Has a turn, also when nobody called: an alarm rang. Resolves after it. */
  tick(): Promise<void> {
    return new Promise((resolve) => {
      this.#onlookers.push(resolve);
      this.#setTurn();
    });
  }

  #setTurn(): void {
    // What is asked while answers are given has the next turn.
    if (this.#isSet || this.#isInTurn) return;
    this.#isSet = true;
    this.#schedule(() => {
      this.#isSet = false;
      return this.#turn();
    });
  }

  #turn(): number {
    const calls = this.#calls;
    const onlookers = this.#onlookers;
    this.#calls = [];
    this.#onlookers = [];
    if (this.#wake !== undefined) clearTimeout(this.#wake);
    this.#wake = undefined;
    this.#isInTurn = true;
    try {
      const turned = this.#core.turn(calls);
      if (turned.restarted) this.#abandon(calls[0]?.[0] ?? Infinity);
      for (const [ticket, status, reply] of turned.answers) this.#answer(ticket, [status, reply]);
      for (const push of turned.pushes ?? []) this.#onPush(...push);
      if (turned.wakeInMs !== null) {
        // There only while somebody waits, so an idle object can hibernate and an idle process can end.
        this.#wake = setTimeout(() => this.#turn(), turned.wakeInMs);
      }
    } catch {
      // Whoever called may repeat the call: that is safe (rule 6).
      this.#abandon(this.#lastTicket + 1);
    }
    for (const resolve of onlookers) resolve();
    this.#isInTurn = false;
    if (this.#calls.length > 0) this.#setTurn();
    return calls.length;
  }

  #answer(ticket: number, answer: Answer<Reply>): void {
    const resolve = this.#open[ticket];
    delete this.#open[ticket];
    resolve?.(answer);
  }

  /** Tells those with a ticket below `end` that nothing is known of their calls. */
  #abandon(end: number): void {
    for (const ticket of Object.keys(this.#open).map(Number)) {
      if (ticket < end) this.#answer(ticket, this.#core.unavailable);
    }
  }
}
