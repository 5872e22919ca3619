// The Web Locks API: over the store in this process, and over sockets and HTTP against workerd.
import { after, before, test } from "node:test";
import { Leasehold, type LeaseholdOptions, memoryStore, type Target } from "leasehold";
import { webLocks } from "./support/web-locks.ts";
import { Workerd } from "./support/workerd.ts";

let workerd: Workerd;
before(async () => {
  workerd = await Workerd.start();
});

const clients: Leasehold[] = [];
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await workerd[Symbol.asyncDispose]();
});

const store = memoryStore();
let names = 0;

function world(target: () => Target, common: LeaseholdOptions) {
  return {
    client: (options: LeaseholdOptions = {}) => {
      const client = new Leasehold(target(), { ...common, ...options });
      clients.push(client);
      return client;
    },
    name: () => `lock ${++names}`,
  };
}

const worlds = {
  "in process": world(() => store, {}),
  "over a socket": world(() => workerd.url, {}),
  "over HTTP": world(() => workerd.url, { WebSocket: false }),
};

for (const [where, world] of Object.entries(worlds)) {
  for (const [title, run] of Object.entries(webLocks)) test(`${where}: ${title}`, () => run(world));
}
