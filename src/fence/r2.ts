// The guard of objects in an R2 bucket: the fence is in an object's custom metadata, and every put has a condition.
import { FenceError, invalid, stale } from "./errors.ts";
import { admits, type Fenced, fenceOf, having, INTEGER } from "./fence.ts";

/** As much of an `R2Bucket` as is used. */
export interface R2Like {
  head(key: string): PromiseLike<{
    readonly version: string;
    readonly uploaded: Date;
    readonly customMetadata?: Record<string, string>;
  } | null>;
  get(key: string): PromiseLike<unknown>;
  put(key: string, value: any, options?: any): PromiseLike<any>;
}

/** The options of the bucket's own `put`, but for the condition, which is the guard's. */
export type R2Options<Bucket extends R2Like> = Omit<
  NonNullable<Parameters<Bucket["put"]>[2]>,
  "onlyIf"
>;

type Value<Bucket extends R2Like> = Parameters<Bucket["put"]>[1];
type Found<Bucket extends R2Like> = Awaited<ReturnType<Bucket["get"]>>;
type Put<Bucket extends R2Like> = NonNullable<Awaited<ReturnType<Bucket["put"]>>>;

/** How often a put may find that somebody else was faster. */
const MOST_TRIES = 32;
/** Two clocks of R2 and of Workers do not differ by more. */
const CLOCKS_DIFFER_MS = 1_000;

/** Guards the objects of a bucket: an object's key is its name. All who write an object must go through a guard. */
export function r2Fence<Bucket extends R2Like>(bucket: Bucket): R2Fence<Bucket> {
  return new R2Fence(having(bucket, "bucket", ["get", "head", "put"]));
}

export class R2Fence<Bucket extends R2Like> {
  /** @internal */
  static readonly name = "R2Fence";

  readonly #bucket: Bucket;

  /** @internal */
  constructor(bucket: Bucket) {
    this.#bucket = bucket;
  }

  /**
   * Puts an object with the fence in its custom metadata. A stream is put once; what it says is gone when somebody
   * else was faster.
   *
   * Rejects with a FenceError: `stale_fence`, `invalid_argument`, `contended`; or as R2 does.
   */
  put(
    key: string,
    lease: Fenced,
    value: Value<Bucket>,
    options?: R2Options<Bucket>,
  ): Promise<Put<Bucket>> {
    const isStream = typeof (value as { getReader?: unknown } | null)?.getReader === "function";
    return this.#write(key, lease, () => value, options, isStream ? 1 : MOST_TRIES);
  }

  /**
   * Reads an object, or null where there is none, and puts what `write` makes of it: nobody has written in between.
   * When somebody has, `write` is called again.
   *
   * Rejects as {@link put} does.
   */
  run(
    key: string,
    lease: Fenced,
    write: (object: Found<Bucket>) => Value<Bucket> | PromiseLike<Value<Bucket>>,
    options?: R2Options<Bucket>,
  ): Promise<Put<Bucket>> {
    // Read after it was looked at: whatever is newer than what was looked at makes the put fail.
    const value = async () => write((await this.#bucket.get(key)) as Found<Bucket>);
    return this.#write(key, lease, value, options, MOST_TRIES);
  }

  async #write(
    key: string,
    lease: Fenced,
    value: () => Value<Bucket>,
    options: R2Options<Bucket> | undefined,
    mostPuts: number,
  ): Promise<Put<Bucket>> {
    const fence = fenceOf(lease);
    const { customMetadata, onlyIf } = (options ?? {}) as {
      customMetadata?: Record<string, string>;
      onlyIf?: unknown;
    };
    if (onlyIf !== undefined) throw invalid("onlyIf", "left out: the condition is the guard's");
    let puts = 0;
    for (let tries = 0; tries < 2 * MOST_TRIES && puts < mostPuts; tries += 1) {
      const seen = await this.#settled(key);
      if (seen === "changed") continue;
      const newest = newestOf(seen?.customMetadata);
      if (!admits(newest, fence)) throw stale(key, fence, newest);
      puts += 1;
      const put = await this.#bucket.put(key, await value(), {
        ...options,
        customMetadata: { ...customMetadata, fence: String(fence) },
        onlyIf: seen ? unchangedSince(seen.uploaded) : { etagDoesNotMatch: "*" },
      });
      if (put) return put;
    }
    throw new FenceError("contended", `others kept writing to ${JSON.stringify(key)}`);
  }

  /**
   * What is there, and has been for a millisecond at least, so that what replaces it is younger. What is there may be
   * older than the clocks can differ; otherwise it must be there still a while later.
   */
  async #settled(key: string) {
    const askedAt = Date.now();
    const seen = await this.#bucket.head(key);
    if (seen === null || askedAt - seen.uploaded.getTime() > CLOCKS_DIFFER_MS) return seen;
    await new Promise<void>((resolve) => setTimeout(resolve, 2));
    const again = await this.#bucket.head(key);
    return again?.version === seen.version ? seen : "changed";
  }
}

/**
 * Not by the etag, which is a hash of the content: a newer holder may have put the same content under its fence. Nor
 * by both, since a time does not count where an etag is given and matches (RFC 9110, 13.2.2).
 */
function unchangedSince(uploaded: Date) {
  return { uploadedBefore: new Date(uploaded.getTime() + 1) };
}

/** An object that nobody has guarded admits everybody; one whose fence cannot be read, nobody. */
function newestOf(metadata: Record<string, string> | undefined): number {
  const text = metadata?.["fence"];
  if (text === undefined) return 0;
  const fence = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(fence)) throw invalid("customMetadata.fence", INTEGER);
  return fence;
}

declare const setTimeout: (action: () => void, afterMs: number) => unknown;
