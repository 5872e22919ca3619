// One space, asked with one key. The key is in here and nowhere else.
import { openStore } from "../shared/store.js";

/** Dispatches `open` and `closed` for its socket. */
export class Session extends EventTarget {
  space;
  locks;
  /** Whether the socket is open at which changes are told. */
  isOpen = false;
  #headers;

  /** Throws a LeaseError, `invalid_argument`, where the space or the key is none. */
  constructor(space, key) {
    super();
    this.space = space;
    this.#headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    this.locks = openStore({ space, key, onLink: (link) => this.#become(link === "live") });
  }

  /** The metrics of the space as text. Rejects with an error that has the `status` of HTTP if there was an answer. */
  async metrics(signal) {
    const url = `/v1/spaces/${encodeURIComponent(this.space)}/metrics`;
    const response = await fetch(url, { headers: this.#headers, cache: "no-store", signal });
    const text = await response.text();
    if (response.ok) return text;
    throw Object.assign(new Error(said(text)), { status: response.status });
  }

  end() {
    void this.locks.close();
  }

  #become(isOpen) {
    if (this.isOpen === isOpen) return;
    this.isOpen = isOpen;
    this.dispatchEvent(new Event(isOpen ? "open" : "closed"));
  }
}

/** What a problem says of itself. */
function said(text) {
  try {
    const { title, detail } = JSON.parse(text);
    return [title, detail].filter(Boolean).join(": ");
  } catch {
    return "The store gave no answer that can be read";
  }
}
