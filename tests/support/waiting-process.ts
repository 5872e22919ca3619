// node waiting-process.ts <http|socket> <url> <lock> <ttlMs>: waits in the queue of a lock as often as a line of its
// input tells it to, with what that line says as its name. When it is granted it prints that name, the fence, and the
// instant on the store's clock, and releases.
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

const [over, url, lock, ttlMs] = process.argv.slice(2) as [string, string, string, string];
const space = `${url}/v1/spaces/default`;
const ask = () => ({
  token: randomUUID(),
  requestId: randomUUID(),
  ttlMs: Number(ttlMs),
  waitMs: 60_000,
});

interface Lease {
  readonly token: string;
  readonly fence: number;
  readonly expiresAt: number;
}

function say(name: string | undefined, { fence, expiresAt }: Lease): void {
  console.log(`${name} ${fence} ${expiresAt - Number(ttlMs)}`);
}

async function post(op: string, fields: object) {
  const response = await fetch(`${space}/locks/${lock}/${op}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fields),
  });
  return (await response.json()) as { lease?: Lease };
}

async function overHttp(name: string): Promise<void> {
  const asked = ask();
  const { lease } = await post("acquire", asked);
  if (lease === undefined) return;
  say(name, lease);
  await post("release", { token: asked.token, fence: lease.fence });
}

const names = new Map<string, string>();
const socket =
  over === "socket" ? new WebSocket(`${space.replace("http", "ws")}/session`) : undefined;

function overSocket(name: string): void {
  const asked = ask();
  names.set(asked.requestId, name);
  socket!.send(JSON.stringify({ id: name, op: "acquire", lock, ...asked }));
}

socket?.addEventListener("message", ({ data }) => {
  const { push, requestId, lease } = JSON.parse(String(data));
  if (push !== "granted") return;
  say(names.get(requestId), lease);
  const { token, fence } = lease;
  socket.send(JSON.stringify({ id: "release", op: "release", lock, token, fence }));
});
await new Promise<void>((open, fail) => {
  if (!socket) return open();
  socket.addEventListener("open", () => open(), { once: true });
  socket.addEventListener("error", () => fail(new Error("the socket did not open")), {
    once: true,
  });
});

console.log("ready");
for await (const name of createInterface(process.stdin)) {
  if (socket) overSocket(name);
  else void overHttp(name);
}
