// The public surface of the npm package. Its leases are disposable, whatever `lib` its user has chosen.
/// <reference lib="esnext.disposable" preserve="true" />
export { DistributedLock } from "./distributed-lock.ts";
export type { BlockingOptions, DistributedLockOptions } from "./distributed-lock.ts";
export { LeaseError } from "./errors.ts";
export type { LeaseErrorCode, LeaseErrorDetails } from "./errors.ts";
export type { Lease } from "./lease.ts";
export { Leasehold } from "./leasehold.ts";
export type { Target } from "./leasehold.ts";
export { memoryStore } from "./memory.ts";
export type { MemoryStore, MemoryStoreOptions } from "./memory.ts";
export type {
  AcquireOptions,
  AttachOptions,
  Change,
  ElectOptions,
  Fetch,
  Holder,
  HttpResponse,
  Inspection,
  Json,
  LeaseholdOptions,
  LeaseNamespace,
  Listing,
  ListOptions,
  LockChange,
  LockInfo,
  LockManagerSnapshot,
  LockState,
  LostReason,
  Mode,
  Patience,
  Released,
  RequestOptions,
  RevokeOptions,
  ServiceBinding,
  Sharing,
  SocketLike,
  Terms,
  Waiter,
  WatchOptions,
  WebSocketConstructor,
} from "./types.ts";
