// The console: what goes on in a space, as it happens, and a way to end what should not go on.
import { announce, make, part, setAttribute, setText } from "../shared/dom.js";
import { askForKey } from "../shared/key-dialog.js";
import { showLink } from "../shared/store.js";
import { clockOf, everyFrame } from "../shared/time.js";
import * as address from "./address.js";
import { Detail } from "./detail.js";
import { Live } from "./live.js";
import { Locks } from "./locks.js";
import { Lookout } from "./lookout.js";
import { shown, spelled } from "./names.js";
import { Plots } from "./plots.js";
import { revoke } from "./revoke.js";
import { Session } from "./session.js";
import { Table } from "./table.js";
import { countsOf, emptyOf, isAboutKey, refusalOf, sentence } from "./words.js";

/** Whoever types a prefix has paused, ms. */
const TYPED_MS = 150;

/** HTTP's way to say that asking again is of no use. */
const FINAL = [400, 401, 403, 404, 414];

const [spaceInput, filterInput, scroller] = [part("space"), part("filter"), part("locks")];

/** In memory only, as long as the page lives. */
let key;
let isKeyAsked = false;
/**
 * What is looked at; the address says the same.
 * @type {{ space: string, prefix?: string, lock?: string }}
 */
let view = { space: "" };
/** Spaces that were opened in this page. */
const opened = new Set();
/** The latest of the spaces to be opened. */
let entering;
/** Whether all there is with the prefix that is looked for was told once: before that nothing can be counted. */
let isListed = false;
/** When the connection was lost, if it is. */
let lostAt;
/** Whether the list is to be drawn anew. */
let isDue = false;
let typing;

const locks = new Locks();
const live = new Live({ change: changed, ready, lost, failed, refused });
const lookout = new Lookout(locks, () => (isDue = true));
const table = new Table(scroller, locks, openLock);
const plots = new Plots(part("plots"), refused);
const detail = new Detail(part("detail"), { revoke: askToRevoke, inspected });

everyFrame((now) => {
  if (locks.prune(now)) isDue = true;
  if (isDue) draw();
  table.tick(now);
  detail.tick(now);
  if (!live.isReady) return;
  lookout.look(table.rendered, live.session, now);
  detail.look(now);
});

part("door").addEventListener("submit", (event) => {
  event.preventDefault();
  enter({ space: spaceInput.value });
});
part("key-button").addEventListener("click", () =>
  giveKey("For this space, and those opened after it."),
);
part("close").addEventListener("click", closeLock);
filterInput.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => filter(filterInput.value), TYPED_MS);
});
part("skip").addEventListener("click", (event) => {
  // What is after the `#` of this page is what it shows.
  event.preventDefault();
  table.focus();
});
addEventListener("keydown", steer);
addEventListener("hashchange", followAddress);
followAddress();

/** The person, or a link, has changed what is after the `#`. */
function followAddress() {
  const { space = "default", prefix = "", lock } = address.read();
  if (space !== view.space || !live.session) return void enter({ space, prefix, lock });
  filterInput.value = prefix;
  filter(prefix);
  if (lock === undefined) closeLock();
  else if (lock !== view.lock) showLock(lock);
}

/**
 * Opens a space, with the key there is.
 * @param {typeof view} wanted
 */
async function enter({ space, prefix = "", lock }) {
  leave();
  view = { space, prefix, lock };
  spaceInput.value = space;
  filterInput.value = prefix;
  say("");
  let session;
  try {
    entering = session = new Session(space, key);
  } catch (error) {
    return refused(error);
  }
  address.write(view);
  showLink("wait");
  setAttribute(scroller, "aria-busy", "true");
  try {
    await plots.begin(session);
  } catch (error) {
    if (session === entering && FINAL.includes(error.status)) return refused(error);
    // Anything else may pass: the watch goes on trying, and says why it has to.
  }
  if (session !== entering) return session.end();
  remember(space);
  live.begin(session, prefix);
  if (lock !== undefined) showLock(lock);
}

function leave() {
  entering = undefined;
  isListed = false;
  plots.stop();
  live.end();
  locks.clear();
  lostAt = undefined;
  isDue = true;
  detail.close();
  table.open(undefined);
  document.body.classList.remove("detailed", "stale");
}

function changed(change) {
  const now = performance.now();
  locks.take(change, now);
  // Also where no frame is drawn, since nobody looks.
  locks.prune(now);
  if (change.lock === detail.lock) detail.changed();
  isDue = true;
}

function ready() {
  lostAt = undefined;
  isListed = true;
  isDue = true;
  showLink("live");
  document.body.classList.remove("stale");
  setAttribute(scroller, "aria-busy", null);
  say("");
  detail.changed();
  announce(countsOf(locks));
}

function lost() {
  showLink("lost");
  document.body.classList.add("stale");
  lostAt = clockOf();
  say(asItWas());
}

function failed(error) {
  showLink("lost");
  say(`${sentence(error.message)} ${asItWas()}`, "problem");
}

function asItWas() {
  return lostAt === undefined ? "" : `What is shown is as it was at ${lostAt}.`;
}

/** The store will not have us: with this key, or none, or under that name. */
function refused(error) {
  leave();
  showLink("off");
  const words = refusalOf(error, view.space, key !== undefined);
  say(words, "problem");
  if (isAboutKey(error)) void giveKey(words);
}

async function giveKey(why) {
  if (isKeyAsked) return;
  isKeyAsked = true;
  const given = await askForKey(why);
  isKeyAsked = false;
  if (given === undefined) return;
  key = given || undefined;
  setText(part("key-button"), key === undefined ? "Key…" : "Other key…");
  void enter(view);
}

function filter(prefix) {
  if (prefix === view.prefix || !live.session) return;
  view.prefix = prefix;
  address.write(view);
  scroller.scrollTop = 0;
  isListed = false;
  live.filter(prefix);
}

function openLock(name) {
  showLock(name);
  detail.focus();
}

function showLock(name) {
  view.lock = name;
  address.write(view);
  detail.open(name, live.session);
  table.open(name);
  document.body.classList.add("detailed");
}

function closeLock() {
  const { lock } = detail;
  if (lock === undefined) return;
  view.lock = undefined;
  address.write(view);
  detail.close();
  table.open(undefined);
  document.body.classList.remove("detailed");
  table.focus(lock);
}

function inspected(found) {
  locks.refresh(found, performance.now());
  isDue = true;
}

async function askToRevoke(lock, holder) {
  const outcome = await revoke(live.session, lock, holder);
  if (outcome !== undefined) {
    announce(outcome);
    if (detail.lock === lock) detail.notice(outcome);
    detail.changed();
  }
  // The button that was pressed may have gone with its lease.
  if (document.activeElement === document.body) detail.focus();
}

/** By keyboard, from anywhere in the page. */
function steer(event) {
  const { target } = event;
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey)
    return;
  if (event.key === "/" && !target.closest?.("input")) {
    event.preventDefault();
    filterInput.focus();
    filterInput.select();
  } else if (event.key === "ArrowDown" && target === filterInput) {
    event.preventDefault();
    table.focus();
  } else if (event.key === "Escape" && target === filterInput && filterInput.value !== "") {
    filterInput.value = "";
    filter("");
  } else if (event.key === "Escape") {
    closeLock();
  }
}

function draw() {
  isDue = false;
  table.update();
  const unlisted = entering ? "Not known yet" : "";
  setText(part("count"), isListed ? countsOf(locks) : unlisted);
  setText(part("empty"), live.isReady && locks.names.length === 0 ? emptyOf(view.prefix) : "");
}

/** Spaces cannot be listed: those that were opened are one press away. */
function remember(space) {
  opened.add(space);
  part("opened").hidden = opened.size < 2;
  const links = [...opened].map((name) => {
    const href = address.hashOf({ space: name });
    const link = make("a", { href, title: spelled(name) }, shown(name));
    setAttribute(link, "aria-current", name === space ? "true" : null);
    return make("li", {}, link);
  });
  part("opened-list").replaceChildren(...links);
}

function say(text, kind = "soft") {
  part("said").className = kind;
  setText(part("said"), text);
}
