// The reference over a socket, with a queue: the least that a lock takes on this platform.
//
// The queue is in memory and forgotten with it, places never end, and nobody claims anything. What is asked in one message
// shares a commit, and so do a release and the grant that follows from it.
import { Reference } from "./store.js";

/** A message is an array of `[id, method, lock, token, ttlMs or fence]`, its answer one of `[id, result]`. */
export class WaitingReference extends Reference {
  /** Who waits, by lock. */
  #waiting = new Map();

  /** The object stays in memory for as long as a socket is open: it would forget the queue in its sleep. */
  fetch() {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.addEventListener("message", ({ data }) => this.#hear(server, data));
    return new Response(null, { status: 101, webSocket: client });
  }

  #hear(socket, message) {
    const answers = [];
    const told = [];
    for (const [id, method, lock, token, last] of JSON.parse(message)) {
      const result =
        method === "acquire" ? this.acquire(lock, token, last) : this.release(lock, token, last);
      if (result.held) this.#queue(lock).push({ socket, id, token, ttlMs: last });
      else answers.push([id, result]);
      const next = method === "release" && this.#waiting.get(lock)?.shift();
      if (next) told.push([next, this.acquire(lock, next.token, next.ttlMs)]);
    }
    if (answers.length > 0) socket.send(JSON.stringify(answers));
    for (const [{ socket, id }, result] of told) socket.send(JSON.stringify([[id, result]]));
  }

  #queue(lock) {
    let queue = this.#waiting.get(lock);
    if (!queue) this.#waiting.set(lock, (queue = []));
    return queue;
  }
}
