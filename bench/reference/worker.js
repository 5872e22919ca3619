// The Worker in front of the reference: HTTP at its least.
import { GroupedReference, Reference } from "./store.js";
import { WaitingReference } from "./waiting.js";

export { GroupedReference, Reference, WaitingReference };

/** `POST /{space}/{acquire|release}` with a JSON array of the method's arguments; `/{space}/session` is a socket. */
export default {
  async fetch(request, env) {
    const [, space, method] = new URL(request.url).pathname.split("/");
    if (method === "session") return env.WAITING.get(env.WAITING.idFromName(space)).fetch(request);
    if (method !== "acquire" && method !== "release") return new Response(null, { status: 404 });
    const stub = env.REFERENCE.get(env.REFERENCE.idFromName(space));
    return Response.json(await stub[method](...(await request.json())));
  },
};
