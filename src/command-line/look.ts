// `inspect`, `ls`, `watch`, `revoke`: what there is in a space, and the end of it.
import { askedOf, clientOf, lookOut } from "./client.ts";
import { Exit } from "./exit.ts";
import { changeLine, holderLine, plain, print, printJson, stateLine, waiterLine } from "./print.ts";
import { integer } from "./values.ts";
import { hasSocket, withSocket } from "./socket.ts";
import type { Command } from "./words.ts";

/** As many as a page may have. */
const PAGE_SIZE = 1_000;

export const inspect: Command = {
  summary: "show who holds a lock and who waits for it",
  words: "<lock>",
  options: {},
  async run(words) {
    const inspection = await clientOf(words).inspect(words.only("<lock>"));
    if (words.has("json")) {
      printJson(inspection);
      return Exit.done;
    }
    const { lock, holders, waiters } = inspection;
    print(`${plain(lock)}${holders.length === 0 ? "  free" : ""}`);
    for (const holder of holders) print(`  held     ${holderLine(holder)}`);
    for (const waiter of waiters) print(`  waiting  ${waiterLine(waiter)}`);
    return Exit.done;
  },
};

export const ls: Command = {
  summary: "list the locks that are held or awaited",
  words: "[prefix]",
  options: {},
  async run(words) {
    const prefix = words.optional("[prefix]");
    const locks = clientOf(words);
    let cursor: string | undefined;
    do {
      const page = await locks.list({ prefix, cursor, pageSize: PAGE_SIZE });
      for (const state of page.locks) {
        if (words.has("json")) printJson(state);
        else print(stateLine(state));
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
    return Exit.done;
  },
};

export const watch: Command = {
  summary: "print the locks there are, and then every change, until it is interrupted",
  words: "[prefix]",
  options: {},
  more: "After a line reset changes may have been missed: what there is follows anew.",
  async run(words) {
    const prefix = words.optional("[prefix]");
    if (!hasSocket()) return withSocket();
    // Nothing of the client's keeps a process alive.
    const alive = setInterval(() => {}, 60_000);
    const look = lookOut(askedOf(words).url);
    try {
      for await (const change of clientOf(words).watch({ prefix })) {
        look.stop();
        if (words.has("json")) printJson(change);
        else print(change.change === "reset" ? "reset" : changeLine(change));
      }
    } finally {
      clearInterval(alive);
      look.stop();
    }
    return Exit.done;
  },
};

export const revoke: Command = {
  summary: "end the leases of a lock for their holders; needs the right admin",
  words: "<lock>",
  options: {
    fence: { value: "n", help: "only this lease; else every one of the lock" },
    reason: { value: "text", help: "why: public, and kept in the audit trail" },
  },
  async run(words) {
    const fence = words.value("fence", integer);
    const reply = await clientOf(words).revoke(words.only("<lock>"), {
      fence,
      reason: words.text("reason"),
    });
    if (words.has("json")) printJson(reply);
    else print(reply.revoked === 1 ? "1 lease revoked" : `${reply.revoked} leases revoked`);
    return Exit.done;
  },
};
