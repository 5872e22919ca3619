// The lease store that serves this page, by a client whose connection can be seen.
import { Leasehold } from "/leasehold/index.js";
import { part, setText } from "./dom.js";

/** A client of the store. `onLink` hears "live" when its socket opens, and "lost" when that breaks. */
export function openStore({ space, key, onLink = (_) => {} }) {
  class SeenSocket extends WebSocket {
    constructor(url, protocols) {
      super(url, protocols);
      this.addEventListener("open", () => onLink("live"));
      this.addEventListener("close", () => this.#end());
    }

    // Called by the package when it has heard nothing for too long: no event says so.
    close(code, reason) {
      super.close(code, reason);
      this.#end();
    }

    #isOver = false;
    #end() {
      if (!this.#isOver) onLink("lost");
      this.#isOver = true;
    }
  }
  return new Leasehold(location.origin, { space, key, WebSocket: SeenSocket });
}

/** Whether it is the key that is wrong, or missing. */
export function isRefusal(error) {
  return error?.code === "unauthorized" || error?.code === "forbidden";
}

const WORDS = {
  off: "Not connected",
  wait: "Connecting",
  live: "Connected",
  lost: "Lost, retrying",
};

/** Shows the state of the connection in the header's `.link`, which is a live region: "off", "wait", "live" or "lost". */
export function showLink(state) {
  const link = part("link");
  link.dataset.link = state;
  setText(link, WORDS[state]);
}
