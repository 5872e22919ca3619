// What happened, in words: for whoever reads it later, and at once for whoever listens.
import { announce, make } from "../shared/dom.js";
import { clockOf } from "../shared/time.js";
import { updates } from "./counter-panel.js";
import { shortOf } from "./fences.js";

const MOST = 200;

const ENDINGS = {
  released: "gives the lock back",
  expired: "did not renew: its lease ended by itself",
  revoked: "lost the lock: somebody revoked its lease",
  stolen: "lost the lock: somebody stole it",
};

/** What is said of an event, if anything: ordinary renewals and writes are seen, and would only be noise. */
const SENTENCES = {
  granted: ({ fence, isOld }) =>
    `${isOld ? "has" : "is granted"} the lock, fence ${shortOf(fence)}`,
  ended: ({ fence, reason }) =>
    `${ENDINGS[reason] ?? "has the lock no more"}, fence ${shortOf(fence)}`,
  waiting: ({ place }) => `waits in the queue, place ${place}`,
  client: ({ news }) => {
    if (news.isDead !== undefined) return news.isDead ? "is killed" : "starts anew";
    if (news.isPaused !== undefined) return news.isPaused ? "stands still" : "goes on";
    if (news.isCut !== undefined) {
      return news.isCut ? "is cut off from the store" : "can reach the store again";
    }
    if (news.note === "lost") return `notices that its lease is over, fence ${shortOf(news.fence)}`;
    if (news.note === "refused") return "is refused: somebody has the lock";
    return undefined;
  },
  counter: ({ outcome, value, fence, lost, now }) => {
    if (outcome === "refused") {
      return `writes ${value} with fence ${shortOf(fence)} and is refused: the counter has seen ${shortOf(now.fence)}`;
    }
    if (outcome === "overwrote") {
      return `writes ${value} with fence ${shortOf(fence)}: ${updates(lost)} of others lost`;
    }
    if (outcome === "set")
      return now.checks ? "The counter compares fences" : "The counter takes any write";
    return undefined;
  },
};

export class Log {
  #body;

  /** `body` of a table: when, who, what. */
  constructor(body) {
    this.#body = body;
  }

  hear(event) {
    const text = SENTENCES[event.type]?.(event);
    if (text === undefined) return;
    const { who } = event;
    const name = who ? make("span", { className: `person hue-${who.hue}` }, who.name) : "";
    const cells = [clockOf(), name, text].map((content) => make("td", {}, content));
    this.#body.prepend(make("tr", {}, ...cells));
    while (this.#body.rows.length > MOST) this.#body.deleteRow(-1);
    announce(`${who ? `${who.name} ` : ""}${text}.`);
  }
}
