// A watch that goes on: through breaks, and until it is of no use.

/** The first pause after an attempt that failed, and the longest, ms. */
const PAUSE_MS = 500;
const PAUSE_CAP_MS = 10_000;

/** Of no use to ask again. */
const FINAL = ["unauthorized", "forbidden", "invalid_argument", "not_found", "closed"];

/**
 * Tells what `watch` yields until `signal` aborts, and beside that `ready` once all there was has been told, and
 * `failed` with an error for every attempt to begin that came to nothing. Rejects with what the store answers for good.
 */
export async function follow(session, prefix, signal, tell) {
  let pauseMs = PAUSE_MS;
  while (!signal.aborted) {
    try {
      await reach(session, prefix);
      if (signal.aborted) return;
      await attempt(session, prefix, signal, (change) => {
        pauseMs = PAUSE_MS;
        tell(change);
      });
      continue;
    } catch (error) {
      if (signal.aborted) return;
      if (FINAL.includes(error?.code)) throw error;
      tell({ change: "failed", error });
    }
    await pause(pauseMs, signal);
    pauseMs = Math.min(2 * pauseMs, PAUSE_CAP_MS);
  }
}

/** So that the watch is asked for at a socket that is open. */
async function reach(session, prefix) {
  await session.locks.list({ prefix, pageSize: 1 });
  if (!session.isOpen) throw new Error("The store answers, but no WebSocket can be opened");
}

/** One watch at one socket. */
async function attempt(session, prefix, signal, tell) {
  const socket = new AbortController();
  const over = () => socket.abort();
  session.addEventListener("closed", over);
  try {
    const both = AbortSignal.any([signal, socket.signal]);
    const changes = session.locks.watch({ prefix, signal: both });
    for await (const change of marked(changes, session, prefix)) {
      if (signal.aborted) return;
      if (change.change === "reset") break;
      tell(change);
    }
  } catch (error) {
    if (!socket.signal.aborted) throw error;
  } finally {
    session.removeEventListener("closed", over);
    over();
  }
  if (!signal.aborted) tell({ change: "reset" });
}

/**
 * A watch does not say when it has told all there was. One socket is answered in order: a question that is asked
 * while nothing is at hand, and is answered while nothing is, says so.
 */
async function* marked(changes, session, prefix) {
  let isReady = false;
  for (;;) {
    const next = changes.next();
    if (!isReady && (await isLast(next, session, prefix))) {
      isReady = true;
      yield { change: "ready" };
    }
    const { value, done } = await next;
    if (done) return;
    yield value;
  }
}

async function isLast(next, session, prefix) {
  let isPending = true;
  const settled = next.then(
    () => (isPending = false),
    () => (isPending = false),
  );
  await Promise.race([settled, turn()]);
  if (!isPending) return false;
  const asked = session.locks.list({ prefix, pageSize: 1 }).catch(() => (isPending = false));
  await Promise.race([settled, asked]);
  await turn();
  return isPending && session.isOpen;
}

function turn() {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Also over when the network is said to be back. */
function pause(lengthMs, signal) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener("online", over);
      resolve(undefined);
    };
    const timer = setTimeout(over, lengthMs * (0.5 + Math.random() / 2));
    addEventListener("online", over);
    signal.addEventListener("abort", over, { once: true });
  });
}
