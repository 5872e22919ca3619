// The list of locks: as many rows as are seen, whatever the number of locks.
import { make, setAttribute, setText } from "../shared/dom.js";
import { lengthOf } from "../shared/time.js";
import { clientOf, tokenOf } from "./holders.js";
import { shown, spelled } from "./names.js";

/** Rows above and below those that are seen. */
const SPARE = 8;

export class Table {
  #locks;
  #scroller;
  #grid;
  #body;
  #rows = new Map();
  /** The lock whose row takes the focus. */
  #active;
  /** The lock that is looked at. */
  #open;
  /** The first row that is seen, which stays where it is when others come and go above. */
  #anchor;

  /** `scroller` holds a `table`. `onOpen` hears the name of the lock that was chosen. */
  constructor(scroller, locks, onOpen) {
    this.#locks = locks;
    this.#scroller = scroller;
    this.#grid = scroller.querySelector("table");
    this.#body = scroller.querySelector("tbody");
    scroller.addEventListener("scroll", () => this.update(), { passive: true });
    new ResizeObserver(() => this.update()).observe(scroller);
    this.#body.addEventListener("keydown", (event) => this.#steer(event));
    this.#body.addEventListener("focusin", (event) => this.#activate(nameAt(event.target)));
    this.#body.addEventListener("click", (event) => {
      const name = nameAt(event.target);
      if (name !== undefined) onOpen(name);
    });
  }

  /** Marks the lock that is looked at. */
  open(name) {
    this.#open = name;
    for (const row of this.#rows.values()) this.#mark(row);
  }

  /** Brings the focus to the lock's row, or the one that has its place. */
  focus(name = this.#active) {
    if (name !== undefined) this.#go(this.#locks.indexOf(name));
  }

  /** The locks have changed, or it was scrolled, or both. */
  update() {
    const { names } = this.#locks;
    const { scrollTop } = this.#scroller;
    this.#body.style.setProperty("--rows", names.length);
    setAttribute(this.#grid, "aria-rowcount", names.length + 1);
    if (this.#anchor && scrollTop > 0) {
      const { name, offset, seenAt } = this.#anchor;
      const top = this.#locks.indexOf(name) * this.#rowHeight + offset + scrollTop - seenAt;
      if (Math.abs(top - scrollTop) >= 1) this.#scroller.scrollTop = top;
    }
    this.#render();
  }

  /** Time has gone on. */
  tick(now) {
    for (const row of this.#rows.values()) row.tick(now);
  }

  /** Names of the rows that are there. */
  get rendered() {
    return this.#rows.keys();
  }

  get #rowHeight() {
    const { names } = this.#locks;
    return names.length > 0 ? this.#body.offsetHeight / names.length : 0;
  }

  #render() {
    const { names } = this.#locks;
    const height = this.#rowHeight;
    const { scrollTop, clientHeight } = this.#scroller;
    const at = height > 0 ? Math.floor(scrollTop / height) : 0;
    const anchor = { name: names[at], offset: scrollTop - at * height, seenAt: scrollTop };
    this.#anchor = at < names.length ? anchor : undefined;
    const first = Math.max(0, at - SPARE);
    const last = Math.min(names.length, at + Math.ceil(clientHeight / (height || 1)) + SPARE);
    const hadFocus = this.#body.contains(document.activeElement);
    this.#keepActive(first);
    this.#place(this.#wanted(first, last));
    if (hadFocus && !this.#body.contains(document.activeElement)) {
      this.#rows.get(this.#active)?.button.focus({ preventScroll: true });
    }
  }

  /** One row can always be reached by Tab: the next one when its lock has gone. */
  #keepActive(first) {
    const { names } = this.#locks;
    if (this.#active === undefined) this.#active = names[first];
    else if (!this.#locks.get(this.#active)) {
      const at = this.#locks.indexOf(this.#active);
      this.#active = names[Math.min(at, names.length - 1)];
    }
  }

  /** Indices of the rows that are to be there, in order; that of the active one also when it is not seen. */
  #wanted(first, last) {
    const wanted = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
    if (this.#active === undefined) return wanted;
    const active = this.#locks.indexOf(this.#active);
    if (active < first) wanted.unshift(active);
    else if (active >= last) wanted.push(active);
    return wanted;
  }

  /** Rows that stay are not moved, since what is moved loses the focus. */
  #place(wanted) {
    const { names } = this.#locks;
    const kept = new Set(wanted.map((at) => names[at]));
    for (const [name, row] of this.#rows) {
      if (kept.has(name)) continue;
      row.element.remove();
      this.#rows.delete(name);
    }
    let next = this.#body.firstElementChild;
    for (const at of wanted) {
      const name = names[at];
      let row = this.#rows.get(name);
      if (!row) this.#rows.set(name, (row = new Row(name)));
      row.show(this.#locks.get(name), at);
      this.#mark(row);
      if (row.element === next) next = next.nextElementSibling;
      else this.#body.insertBefore(row.element, next);
    }
  }

  #mark(row) {
    setAttribute(row.element, "aria-selected", row.name === this.#open);
    setAttribute(row.button, "tabindex", row.name === this.#active ? 0 : -1);
  }

  #activate(name) {
    if (name === undefined || name === this.#active) return;
    const before = this.#rows.get(this.#active);
    this.#active = name;
    for (const row of [before, this.#rows.get(name)]) if (row) this.#mark(row);
  }

  #steer(event) {
    if (event.altKey || event.metaKey || event.shiftKey) return;
    const at = this.#locks.indexOf(this.#active ?? "");
    const page = Math.max(1, Math.floor(this.#scroller.clientHeight / this.#rowHeight) - 2);
    const end = this.#locks.names.length - 1;
    const ways = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: end,
    };
    if (!(event.key in ways)) return;
    event.preventDefault();
    this.#go(Math.min(end, Math.max(0, ways[event.key])));
  }

  #go(at) {
    this.update();
    const { names } = this.#locks;
    if (names.length === 0) return;
    this.#active = names[Math.min(at, names.length - 1)];
    const top = at * this.#rowHeight;
    // The header covers as much at the top.
    const seen = this.#scroller.clientHeight - this.#grid.tHead.offsetHeight;
    const { scrollTop } = this.#scroller;
    if (top < scrollTop) this.#scroller.scrollTop = top;
    else if (top + this.#rowHeight > scrollTop + seen) {
      this.#scroller.scrollTop = top + this.#rowHeight - seen;
    }
    this.#render();
    this.#rows.get(this.#active)?.button.focus({ preventScroll: true });
  }
}

class Row {
  name;
  element;
  button;
  #shown;
  #index;
  #holder = make("td", { role: "gridcell", className: "holder" });
  #fence = make("td", { role: "gridcell", className: "fence" });
  #info = make("td", { role: "gridcell", className: "info" });
  #left = document.createTextNode("");
  #queue = make("td", { role: "gridcell", className: "queue figure" });

  constructor(name) {
    this.name = name;
    this.button = make("button", { type: "button", title: spelled(name) }, shown(name));
    const cell = make("td", { role: "gridcell", className: "name" }, this.button);
    const left = make("td", { role: "gridcell", className: "left figure" }, this.#left);
    const cells = [cell, this.#info, this.#holder, this.#fence, left, this.#queue];
    this.element = make("tr", { role: "row" }, ...cells);
    this.element.lockName = name;
  }

  show(entry, index) {
    if (index !== this.#index) {
      this.#index = index;
      this.element.style.setProperty("--row", index);
      this.element.setAttribute("aria-rowindex", index + 2);
    }
    if (entry === this.#shown) return;
    const [before, [first]] = [this.#shown, entry.holders];
    this.#shown = entry;
    this.#holder.replaceChildren(...holdersOf(entry));
    this.#fence.replaceChildren(...(first ? [tokenOf(first)] : []));
    this.#info.replaceChildren(
      ...(first?.info === undefined ? [] : [shown(JSON.stringify(first.info))]),
    );
    setText(this.#queue, entry.queue > 0 ? `${entry.queue} waiting` : "");
    if (before && before.holders[0]?.fence !== first?.fence) this.#flash();
    this.tick(performance.now());
  }

  tick(now) {
    const { endsAt } = this.#shown;
    setText(this.#left, Number.isFinite(endsAt) ? lengthOf(endsAt - now) : "");
  }

  /** Somebody else has it now. */
  #flash() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const from = { backgroundColor: getComputedStyle(this.element).getPropertyValue("--flash") };
    this.element.animate([from, {}], { duration: 700, easing: "ease-out" });
  }
}

function holdersOf({ holders, queue }) {
  const [first, ...others] = holders;
  if (!first) return [make("span", { className: "soft" }, queue > 0 ? "closed for now" : "free")];
  if (others.length === 0) return [clientOf(first)];
  // A list shows ten holders of a lock at most.
  const more = others.length < 9 ? `+${others.length}` : "+9 or more";
  return [clientOf(first), make("span", { className: "more" }, more)];
}

function nameAt(target) {
  return target.closest("tr")?.lockName;
}
