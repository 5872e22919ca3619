// One lock in full: its holders with what they say of themselves, its queue, and how to end a lease.
import { make, setAttribute, setText } from "../shared/dom.js";
import { lengthOf } from "../shared/time.js";
import { clientOf, tokenOf } from "./holders.js";
import { CLOSE_MS } from "./lookout.js";
import { shown, shownJson } from "./names.js";
import { sentence } from "./words.js";

/** The lock is not inspected more often, whatever happens to it, ms. */
const APART_MS = 250;

/** So many of each are shown: at first, and when asked for more. */
const FOLDED = 10;
const SHOWN = 100;

export class Detail {
  lock;
  #session;
  #on;
  #parts;
  /** By fence. */
  #holders = new Map();
  #waiters = [];
  /** What the store said last of the lock, and when. */
  #found;
  #foundAt;
  /** Of "holders" and "waiters", those of which more are asked for. */
  #unfolded = new Set();
  /** Something has happened to the lock since it was inspected. */
  #isDue = false;
  #isAsking = false;
  #askedAt = -Infinity;

  /** `on.inspected(found)` hears what the store says of the lock, `on.revoke(lock, holder)` what is to be ended. */
  constructor(panel, on) {
    const part = (name) => panel.querySelector(`[data-part="${name}"]`);
    const names = [
      "hint",
      "content",
      "name",
      "notice",
      "holders",
      "held",
      "all",
      "unfoldHolders",
      "waiters",
      "waiting",
      "unfoldWaiters",
    ];
    this.#parts = Object.fromEntries(names.map((name) => [name, part(name)]));
    this.#on = on;
    this.#parts.all.addEventListener("click", () => on.revoke(this.lock, undefined));
    this.#parts.unfoldHolders.addEventListener("click", () => this.#turn("holders"));
    this.#parts.unfoldWaiters.addEventListener("click", () => this.#turn("waiters"));
  }

  open(lock, session) {
    this.close();
    this.lock = lock;
    this.#session = session;
    this.#isDue = true;
    this.#askedAt = -Infinity;
    this.#parts.name.replaceChildren(shown(lock));
    this.#parts.hint.hidden = true;
    this.#parts.content.hidden = false;
  }

  close() {
    this.lock = undefined;
    this.#holders.clear();
    this.#waiters = [];
    this.#found = undefined;
    this.#unfolded.clear();
    for (const name of ["holders", "waiters"]) this.#parts[name].replaceChildren();
    for (const name of ["unfoldHolders", "unfoldWaiters"]) this.#parts[name].hidden = true;
    for (const name of ["held", "waiting"]) setText(this.#parts[name], "");
    this.notice("");
    this.#parts.hint.hidden = false;
    this.#parts.content.hidden = true;
  }

  /** The lock has changed, or may have. */
  changed() {
    this.#isDue = true;
  }

  /** Said where it is looked for, and kept there. */
  notice(text) {
    setText(this.#parts.notice, text);
  }

  focus() {
    this.#parts.name.focus();
  }

  /** Asks the store where the lock may have changed, or the time of a holder is about to run out. */
  look(now) {
    if (this.lock === undefined) return;
    const isClose = [...this.#holders.values()].some(({ endsAt }) => endsAt - now < CLOSE_MS);
    const waitMs = this.#isDue ? APART_MS : CLOSE_MS;
    if ((this.#isDue || isClose) && !this.#isAsking && now - this.#askedAt >= waitMs) {
      this.#askedAt = now;
      void this.#ask(this.lock, this.#session);
    }
  }

  /** Time has gone on. */
  tick(now) {
    for (const { left, held, endsAt, heldSince } of this.#holders.values()) {
      setText(left, lengthOf(endsAt - now));
      setText(held, lengthOf(now - heldSince));
    }
    for (const { waited, since } of this.#waiters) setText(waited, lengthOf(now - since));
  }

  async #ask(lock, session) {
    this.#isAsking = true;
    this.#isDue = false;
    try {
      const found = await session.locks.inspect(lock);
      this.#on.inspected(found);
      if (lock !== this.lock) return;
      this.#found = found;
      this.#foundAt = performance.now();
      this.#show();
    } catch (error) {
      // Why is said by whoever looks after the connection.
      if (error.code === "unavailable") this.#isDue = true;
      else if (lock === this.lock) setText(this.#parts.held, sentence(error.message));
    } finally {
      this.#isAsking = false;
    }
  }

  /** Shows more of them, or fewer again. */
  #turn(what) {
    if (!this.#unfolded.delete(what)) this.#unfolded.add(what);
    this.#show();
  }

  #show() {
    const { holders, waiters } = this.#found;
    const now = this.#foundAt;
    const { held, waiting, all, unfoldHolders, unfoldWaiters } = this.#parts;
    setText(held, holders.length === 0 ? "Nobody holds it" : some(holders.length, "holder"));
    setText(waiting, waiters.length === 0 ? "Nobody waits" : `${waiters.length} waiting`);
    all.hidden = holders.length < 2;
    setText(all, `Revoke all ${holders.length}`);
    this.#showHolders(holders, now);
    this.#showWaiters(waiters, now);
    this.#offer(unfoldHolders, "holders", holders.length);
    this.#offer(unfoldWaiters, "waiters", waiters.length);
    this.tick(performance.now());
  }

  #offer(button, what, count) {
    const isUnfolded = this.#unfolded.has(what);
    const more = Math.min(count, SHOWN) - FOLDED;
    if (button.contains(document.activeElement) && more <= 0) this.focus();
    button.hidden = more <= 0;
    setAttribute(button, "aria-expanded", isUnfolded);
    setText(button, isUnfolded ? `Show ${FOLDED} ${what}` : `Show ${more} more ${what}`);
  }

  #shownOf(what) {
    return this.#unfolded.has(what) ? SHOWN : FOLDED;
  }

  /** What stays is not touched: a button keeps its focus. */
  #showHolders(holders, now) {
    const list = this.#parts.holders;
    const hadFocus = list.contains(document.activeElement);
    const seen = holders.slice(0, this.#shownOf("holders"));
    const kept = new Set(seen.map(({ fence }) => fence));
    for (const [fence, { item }] of this.#holders) {
      if (kept.has(fence)) continue;
      item.remove();
      this.#holders.delete(fence);
    }
    for (const holder of seen) {
      let known = this.#holders.get(holder.fence);
      if (!known) {
        known = this.#holder(holder);
        this.#holders.set(holder.fence, known);
        list.append(known.item);
      }
      known.endsAt = now + holder.expiresInMs;
      known.heldSince = now - holder.heldMs;
    }
    more(list, holders.length - seen.length);
    if (hadFocus && !list.contains(document.activeElement)) this.focus();
  }

  #holder(holder) {
    const [left, held] = [document.createTextNode(""), document.createTextNode("")];
    const revoke = make("button", { type: "button", className: "danger" }, "Revoke");
    setAttribute(revoke, "aria-label", `Revoke the lease with fence ${holder.fence}`);
    revoke.addEventListener("click", () => this.#on.revoke(this.lock, holder));
    const item = make(
      "li",
      {},
      make("p", { className: "who" }, clientOf(holder), modeOf(holder)),
      make("p", {}, "Fence ", tokenOf(holder)),
      make("p", { className: "soft small lengths" }, fact(left, "left"), fact(held, "held so far")),
      ...infoOf(holder),
      revoke,
    );
    return { item, left, held };
  }

  #showWaiters(waiters, now) {
    this.#waiters = waiters.slice(0, this.#shownOf("waiters")).map((waiter) => {
      const waited = document.createTextNode(lengthOf(waiter.waitedMs));
      const item = make(
        "li",
        {},
        make("p", { className: "who" }, clientOf(waiter), modeOf(waiter)),
        make("p", { className: "soft small lengths" }, fact(waited, "waited")),
        ...(waiter.info === undefined
          ? []
          : [make("p", { className: "said" }, shown(JSON.stringify(waiter.info)))]),
      );
      return { item, waited, since: now - waiter.waitedMs };
    });
    const list = this.#parts.waiters;
    list.replaceChildren(...this.#waiters.map(({ item }) => item));
    more(list, waiters.length - this.#waiters.length);
  }
}

function modeOf({ mode }) {
  return mode === "shared" ? make("span", { className: "more" }, "shared") : "";
}

function fact(value, of) {
  return make("span", {}, make("span", { className: "figure" }, value), ` ${of}`);
}

function infoOf({ info }) {
  if (info === undefined) return [];
  const properties = {
    className: "scroller info",
    tabIndex: 0,
    role: "group",
    "aria-label": "Info",
  };
  return [make("pre", properties, shownJson(info))];
}

/** What is not shown is counted. */
function more(list, count) {
  list.querySelector(".rest")?.remove();
  if (count > 0) list.append(make("li", { className: "rest soft" }, `and ${count} more`));
}

function some(count, what) {
  return count === 1 ? `1 ${what}` : `${count} ${what}s`;
}
