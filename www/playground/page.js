// The playground: clients in threads of their own, what the store knows of their lock, and the counter they write to.
// Whatever happens is an event that every part of the page hears.
import { isUsable, part, setUsable } from "../shared/dom.js";
import { askForKey } from "../shared/key-dialog.js";
import { isRefusal, openStore, showLink } from "../shared/store.js";
import { everyFrame } from "../shared/time.js";
import { Card } from "./card.js";
import { Counter } from "./counter.js";
import { CounterPanel } from "./counter-panel.js";
import { Guide } from "./guide.js";
import { Log } from "./log.js";
import { Observer } from "./observer.js";
import { MOST, nextPerson } from "./people.js";
import { StorePanel } from "./store-panel.js";
import { Timeline } from "./timeline.js";

const SPACE = "playground";

/** Only such pages share memory with their threads. */
const NOTICE = crossOriginIsolated
  ? ""
  : "Here no client can be paused: for that, this page has to come by https, or from localhost.";

const [add, checks, lockField, notice] = ["add", "checks", "lock", "notice"].map(part);

const lock = lockOfAddress();
const cards = [];
let isOver = false;
const timeline = new Timeline(part("timeline"));
const store = new StorePanel(part("store"));
/** @type {{ hear(event): void }[]} */
const parts = [timeline, store, new Log(part("log"))];

lockField.value = lock;
lockField.addEventListener("change", () => {
  // An emptied field changes nothing, and does not look as if it had.
  lockField.value = lockField.value.trim() || lock;
  location.hash = encodeURIComponent(lockField.value);
});
addEventListener("hashchange", () => location.reload());
part("another").href = location.href;

const counter = await Counter.open(lock);
parts.push(new CounterPanel(part("counter"), await counter.look()));
counter.onNews((news) => hear({ type: "counter", ...news }));
checks.addEventListener("change", () => counter.setChecks(checks.checked));

const door = await openDoor();
if (door) await begin(door);
else part("guide").hidden = true;

async function begin({ locks, key }) {
  const addClient = () => addClientWith(key);
  await addClient();
  await addClient();
  add.addEventListener("click", () => isUsable(add) && addClient());
  setUsable(add, true);
  parts.push(new Guide(cards, checks, startOver));
  everyFrame((now) => {
    store.draw(now);
    timeline.draw(now);
  });
  void new Observer(locks, lock, hear).observe(({ message }) => refuse(message));
}

function hear(event) {
  for (const one of parts) one.hear(event);
}

/** The name in the address, so that whoever opens the same address meets the same lock. */
function lockOfAddress() {
  try {
    const given = decodeURIComponent(location.hash.slice(1));
    if (given !== "") return given;
  } catch {
    // It is no name.
  }
  const made = `invoice-${Math.floor(100 + Math.random() * 900)}`;
  history.replaceState(null, "", `#${made}`);
  return made;
}

/** The store, and the key that it wants, if it wants one; `undefined` where it is of no use to go on. */
async function openDoor() {
  let key;
  for (;;) {
    const locks = openStore({ space: SPACE, key, onLink: show });
    try {
      await locks.inspect(lock);
      return { locks, key };
    } catch (error) {
      const isFinal = error.code === "invalid_argument";
      if (!isFinal && !isRefusal(error)) {
        show("lost");
        tell(error.message);
        return { locks, key };
      }
      void locks.close();
      show("off");
      if (isFinal) return refuse(error.message);
      const rights = `The playground needs one for the space “${SPACE}” with the rights read and lock.`;
      const given = await askForKey(`${error.message}. ${rights}`);
      if (given === undefined) return refuse(`${error.message}. ${rights}`);
      key = given || undefined;
    }
  }
}

async function addClientWith(key) {
  const who = await nextPerson(lock);
  if (who) {
    const card = new Card(who, { lock, space: SPACE, key }, hear);
    cards.push(card);
    timeline.add(who);
    part("clients").append(card.element);
  }
  if (!who || cards.length === MOST) setUsable(add, false);
}

function startOver() {
  for (const card of cards) card.rest();
  void counter.setChecks(true);
}

/** How the connection is. Nothing is said of it any more once the page has given up. */
function show(link) {
  if (isOver) return;
  showLink(link);
  store.show(link);
  if (link === "live") tell(NOTICE);
}

/** The store answers so for good: the page does not go on, and says why. */
function refuse(message) {
  show("off");
  isOver = true;
  tell(message);
}

function tell(message) {
  notice.textContent = message;
  notice.hidden = message === "";
}
