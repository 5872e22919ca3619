// Uncontended cycles over HTTP.
import { Agent, request } from "node:http";
import { randomUUID } from "node:crypto";
import { type Contender, type Figure, inTurns, throughput } from "../measure.ts";
import type { Row, Section } from "./section.ts";
import { NAMES } from "./stub.ts";

const ROUNDS = 5;

export const http: Section = {
  name: "http",
  title: "Acquire and release over HTTP",
  about: `One POST each, from Node.js with kept-alive connections, through the Worker to the object. The hand-written one reads
the path and hands the body on.`,
  async run({ workerd }) {
    const rows: Row[] = [];
    for (const atOnce of [1, 64]) {
      const contenders = [
        ours(workerd.url("leasehold"), atOnce),
        handWritten(workerd.url("reference"), atOnce),
      ];
      const figures = await inTurns(contenders, ROUNDS);
      rows.push({
        what: `HTTP, ${atOnce} at once`,
        unit: "cycles/s",
        ours: figures.get("ours") as Figure,
        peer: { name: NAMES.reference, figure: figures.get("hand-written") as Figure },
      });
    }
    return { rows };
  },
};

function ours(url: string, atOnce: number): Contender {
  const agent = new Agent({ keepAlive: true });
  return throughput("ours", atOnce, async (lane) => {
    const lock = `${url}/v1/spaces/http/locks/lock-${lane}`;
    const token = randomUUID();
    const { lease } = await post(agent, `${lock}/acquire`, { token, requestId: randomUUID() });
    await post(agent, `${lock}/release`, { token, fence: lease.fence });
  });
}

function handWritten(url: string, atOnce: number): Contender {
  const agent = new Agent({ keepAlive: true });
  return throughput("hand-written", atOnce, async (lane) => {
    const token = randomUUID();
    const { fence } = await post(agent, `${url}/http/acquire`, [`lock-${lane}`, token, 30_000]);
    await post(agent, `${url}/http/release`, [`lock-${lane}`, token, fence]);
  });
}

/** `fetch` is the slower of Node's two clients and would be most of what is measured. */
function post(agent: Agent, url: string, body: unknown): Promise<any> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url, { method: "POST", agent, headers }, async (response) => {
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      if (response.statusCode === 200) resolve(JSON.parse(text));
      else reject(new Error(`${url} answered ${response.statusCode}: ${text}`));
    });
    sent.on("error", reject).end(JSON.stringify(body));
  });
}
