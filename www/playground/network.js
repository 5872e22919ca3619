// A client's way to the store, which can be cut: what is on its way then is lost, and nobody is told.

export class Network {
  #isCut = false;
  #sockets = new Set();

  cut() {
    this.#isCut = true;
  }

  /** What was open before turns out to be broken, as after a change of networks. */
  mend() {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.break();
    this.#sockets.clear();
  }

  /** What `new Leasehold` is given in place of the browser's own. */
  get options() {
    return { fetch: (url, init) => this.#fetch(url, init), WebSocket: this.#socketClass() };
  }

  async #fetch(url, init) {
    this.#pass();
    const response = await fetch(url, init);
    this.#pass();
    return response;
  }

  #pass() {
    if (this.#isCut) throw new TypeError("the network is cut");
  }

  #socketClass() {
    const isCut = () => this.#isCut;
    const pass = () => this.#pass();
    const sockets = this.#sockets;
    return class extends WebSocket {
      constructor(url, protocols) {
        pass();
        super(url, protocols);
        sockets.add(this);
      }

      send(text) {
        if (!isCut()) super.send(text);
      }

      // A goodbye does not get through either; `break` says it later.
      close(code, reason) {
        if (isCut()) return;
        sockets.delete(this);
        super.close(code, reason);
      }

      addEventListener(type, listener) {
        super.addEventListener(type, (event) => {
          if (!isCut()) listener(event);
        });
      }

      break() {
        // Not 1000: who only lost the connection keeps a place in the queue for a while.
        super.close(4000);
      }
    };
  }
}
