// What differs between the places this runs in, beside where the WebAssembly is.

interface Host {
  readonly setImmediate?: (callback: () => void) => unknown;
  readonly navigator?: { readonly userAgent?: string };
  readonly process?: { getBuiltinModule?: (name: string) => unknown };
}

const host = globalThis as Host;

/** Once what is going on is done, promises included, and before any timer that is set later. */
export function soon(callback: () => void): void {
  if (host.setImmediate) host.setImmediate(callback);
  else setTimeout(callback, 0);
}

/** Whether messages that come together may be handed over in one go, before what the first one sets off. */
export const mayCrowd = host.setImmediate !== undefined;

const encoder = new TextEncoder();

/** How long a text is on its way. */
export function bytesOf(text: string): number {
  return /^[\x00-\x7f]*$/.test(text) ? text.length : encoder.encode(text).length;
}

/** A Worker: what one request has opened, another may not use. */
export function isWorker(): boolean {
  return host.navigator?.userAgent === "Cloudflare-Workers";
}

let isWatching = false;

/**
 * From now on no socket of ours keeps a Node process alive: only what is awaited does. Its WebSocket has no
 * method for that, but it tells whoever listens of the connection that it uses.
 */
export function unrefSockets(): void {
  if (isWatching) return;
  isWatching = true;
  try {
    const channels = host.process?.getBuiltinModule?.("node:diagnostics_channel") as Channels;
    channels?.subscribe("undici:client:sendHeaders", ({ request, headers, socket }) => {
      const isOurs = request?.upgrade === "websocket" && String(headers).includes("leasehold.v1");
      if (isOurs) socket?.unref?.();
    });
  } catch {
    // Not Node: then the socket keeps it alive for as long as it is open.
  }
}

interface Channels {
  subscribe(
    name: string,
    listener: (message: {
      readonly request?: { readonly upgrade?: unknown };
      readonly headers?: unknown;
      readonly socket?: { unref?: () => void };
    }) => void,
  ): void;
}
