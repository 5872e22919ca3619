// A process that takes locks and then does nothing until it is killed: what `sections/takeover.ts` kills.
//
// `node holder.ts <service> <address> <ttlMs> <lock>...` says, as one line of JSON, when each lease was granted, in epoch ms.
import { kindOf } from "./services/kinds.ts";

const [name = "", address = "", ttlMs, ...locks] = process.argv.slice(2);
const client = await kindOf(name).connect(address);
const grantedAt: number[] = [];
for (const lock of locks) {
  await client.acquire(lock, Number(ttlMs));
  grantedAt.push(performance.timeOrigin + performance.now());
}
console.log(JSON.stringify(grantedAt));
setInterval(() => {}, 1_000);
