// What may stand in the way of a step of the guided minute: what it is, in words, and what to press, if anything.

export class Obstacles {
  #world;

  constructor(world) {
    this.#world = world;
  }

  /** The counter takes any write already. */
  unchecked() {
    const { checks } = this.#world;
    if (checks.checked) return undefined;
    return { text: "Switch “Compare fences” on: first see what it is good for.", press: checks };
  }

  /** A client that can do nothing. */
  unready({ who: { name }, state, buttons }) {
    if (state.isDead) {
      return { text: `${name} was killed. Press “Start” on ${name}.`, press: buttons.kill };
    }
    if (state.isPaused) {
      return { text: `${name} stands still. Press “Wake” on ${name}.`, press: buttons.pause };
    }
    if (state.isCut) {
      return { text: `${name} is cut off. Press “Mend” on ${name}.`, press: buttons.cut };
    }
    return undefined;
  }

  /** The lock that `card` is to acquire is held. */
  taken(card) {
    const holder = this.#holderHere();
    if (!holder) return this.elsewhere();
    const { who, state, buttons } = holder;
    const { name } = who;
    if (state.phase !== "holding") {
      const text = `The lease that ${name} had is not over yet. Watch: it runs out by itself.`;
      // A moment later its answer is there.
      return state.phase === "asking" || state.phase === "waiting" ? undefined : { text };
    }
    if (holder === card) return undefined;
    const text = `${name} holds the lock. Press “Release” on ${name}.`;
    return this.unready(holder) ?? { text, press: buttons.release };
  }

  /** Somebody has the lock who is not in this page. */
  elsewhere() {
    if (!this.#world.store.holder || this.#holderHere()) return undefined;
    return {
      text: "Somebody in another tab holds the lock: release it there, or take another lock above.",
    };
  }

  /** Nobody has the lock that `card` is to have. */
  without({ who: { name }, buttons }) {
    const text = `${name} has not got the lock any more. Press “Acquire” on ${name}.`;
    return { text, press: buttons.acquire };
  }

  #holderHere() {
    const { cards, store } = this.#world;
    return cards.find(({ who }) => who.id === store.holder?.who.id);
  }
}
