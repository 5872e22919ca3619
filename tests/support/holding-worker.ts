// node holding-worker.ts <url> <lock> <ttlMs>: holds until it is killed.
import { Leasehold } from "leasehold";

const [url, lock, ttlMs] = process.argv.slice(2) as [string, string, string];
const lease = await new Leasehold(url).acquire(lock, { ttlMs: Number(ttlMs) });
console.log(lease.fence);
setInterval(() => {}, 60_000);
