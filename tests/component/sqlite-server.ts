// A lease server over SQLite, with the component deciding: an example of a host. It speaks the protocol
// over HTTP (`POST /v1/spaces/default/locks/{lock}/{verb}`), so the npm package is a client of it.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { wire } from "../../target/components/js/decider/decider.js";

const LIMITS = { rememberMs: 60_000n, recordBytesMax: 1n << 20n };
const VERBS = ["acquire", "renew", "release", "cancel", "revoke"];

export class LeaseServer {
  readonly #database: DatabaseSync;
  readonly #http: Server;
  /** The waiters whose lines are held, by lock, token and requestId. */
  readonly #lines = new Map<string, (message: wire.Message) => void>();
  readonly #alarms = new Map<string, NodeJS.Timeout>();

  constructor(file: string) {
    this.#database = new DatabaseSync(file);
    this.#database.exec(`
      PRAGMA journal_mode = WAL;
      CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS space (last_fence INTEGER NOT NULL) STRICT;
      INSERT INTO space SELECT 0 WHERE NOT EXISTS (SELECT * FROM space);
    `);
    this.#http = createServer(async (request, response) => {
      const { status, body } = await this.#answer(request).catch(unavailable);
      response.writeHead(status, { "content-type": "application/json" }).end(body);
    });
  }

  /** Load, decide, commit, and only then reply: here to the waiters, by what is returned to the asker. */
  #decide(op: string, lock: string, fields: string): wire.Answer {
    const sql = this.#database;
    const now = BigInt(Date.now());
    sql.exec("BEGIN IMMEDIATE");
    let answer;
    try {
      const row = sql.prepare("SELECT record FROM locks WHERE name = ?").get(lock);
      const { last_fence } = sql.prepare("SELECT last_fence FROM space").get()!;
      const space = {
        name: "default",
        lastFence: BigInt(last_fence as number),
        fenceFloor: now * 1_000n,
      };
      const prior = row?.["record"] as Uint8Array | undefined;
      answer = wire.decide(prior, op, lock, fields, now, space, LIMITS);

      const { change, lastFence } = answer;
      if (change.tag === "store") {
        sql.prepare("INSERT OR REPLACE INTO locks VALUES (?, ?)").run(lock, change.val);
      } else if (change.tag === "delete") {
        sql.prepare("DELETE FROM locks WHERE name = ?").run(lock);
      }
      sql.prepare("UPDATE space SET last_fence = ?").run(lastFence);
      sql.exec("COMMIT");
    } catch (error) {
      sql.exec("ROLLBACK");
      throw error;
    }
    for (const { ask, message } of answer.waiters) {
      this.#lines.get(line(lock, ask))?.(message);
    }
    this.#setAlarm(lock, answer.wakeAt);
    return answer;
  }

  async #answer(request: IncomingMessage): Promise<wire.Message> {
    const found = /^\/v1\/spaces\/default\/locks\/([^/]+)(?:\/([^/]+))?$/.exec(request.url ?? "");
    const op = found?.[2] ?? "inspect";
    if (!found || (op !== "inspect" && !VERBS.includes(op))) {
      return { status: 404, body: '{"code":"not_found"}' };
    }
    const lock = decodeURIComponent(found[1]!);
    const fields = (await text(request)) || "{}";
    const { message } = this.#decide(op, lock, fields);
    if (op !== "acquire" || message.status !== 202) return message;

    // The line is held until a later decision serves it, or it has waited long enough.
    const { token, requestId } = JSON.parse(fields);
    const key = line(lock, { token, requestId });
    const standing = () =>
      this.#decide("standing", lock, JSON.stringify({ token, requestId })).message;
    this.#lines.get(key)?.(standing());
    return new Promise((resolve, reject) => {
      const { retryAfterMs } = JSON.parse(message.body);
      const late = setTimeout(() => {
        this.#lines.delete(key);
        try {
          resolve(standing());
        } catch (error) {
          reject(error);
        }
      }, retryAfterMs);
      this.#lines.set(key, (message) => {
        clearTimeout(late);
        this.#lines.delete(key);
        resolve(message);
      });
    });
  }

  /** Somebody waits: time alone may serve them. An alarm that is lost delays them and endangers nothing. */
  #setAlarm(lock: string, wakeAt: bigint | undefined): void {
    clearTimeout(this.#alarms.get(lock));
    this.#alarms.delete(lock);
    if (wakeAt === undefined) return;
    const inMs = Math.max(0, Number(wakeAt) - Date.now());
    this.#alarms.set(lock, setTimeout(() => this.#decide("tick", lock, "{}"), inMs).unref());
  }

  /** Its address. */
  async listen(): Promise<string> {
    this.#http.listen(0, "127.0.0.1");
    await once(this.#http, "listening");
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** Ends it as a crash would: whoever waits is cut off. */
  [Symbol.dispose](): void {
    this.#http.close();
    this.#http.closeAllConnections();
    for (const alarm of this.#alarms.values()) clearTimeout(alarm);
    this.#database.close();
  }
}

/** Nobody is told what happened, because nobody knows. */
function unavailable(error: unknown): wire.Message {
  console.error("lease server:", error);
  return { status: 503, body: '{"code":"unavailable"}' };
}

function line(lock: string, { token, requestId }: wire.Ask): string {
  return JSON.stringify([lock, token, requestId]);
}
