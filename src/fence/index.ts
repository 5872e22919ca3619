// The public surface of `leasehold/fence`: guards for what a lock protects.
export { d1Fence } from "./d1.ts";
export type { D1Fence, D1Like } from "./d1.ts";
export { FenceError } from "./errors.ts";
export type { FenceErrorCode, FenceErrorDetails } from "./errors.ts";
export type { Fenced } from "./fence.ts";
export { memoryFence } from "./memory.ts";
export type { MemoryFence } from "./memory.ts";
export { postgresFence } from "./postgres.ts";
export type {
  PgClientLike,
  PgPoolLike,
  PostgresFence,
  PostgresJsLike,
  PostgresJsTransactionLike,
} from "./postgres.ts";
export { r2Fence } from "./r2.ts";
export type { R2Fence, R2Like, R2Options } from "./r2.ts";
export { fenceSql } from "./sql.ts";
export type { FenceSql, TableOptions } from "./sql.ts";
export { durableObjectFence, sqliteFence } from "./sqlite.ts";
export type { DurableObjectStorageLike, SqliteFence, SqliteLike, Synchronous } from "./sqlite.ts";
