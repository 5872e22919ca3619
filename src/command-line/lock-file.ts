// A folder that only one process may use at a time. The lock is the kernel's: it is gone when the last process that has
// the open file is, however that ended, and counts in containers that share the folder.
import { spawnSync } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { join } from "node:path";
import { Exit, Failure, unavailable } from "./exit.ts";

/** open(2) of macOS and the BSDs locks as flock(2) does. */
const O_EXLOCK = 0x20;

/** Locks the folder: an open file, to be inherited by whoever goes on using what is in it. */
export function lockFile(folder: string): number {
  const path = join(folder, "lock");
  const file = process.platform === "linux" ? byProgram(path) : atOpen(path);
  if (file !== undefined) return file;
  const what = `another serve uses ${folder}: end it, or give another --dir`;
  throw new Failure(Exit.unavailable, "in_use", what);
}

/** Node has no flock(2). flock(1) has, and what it locks here is the open file, which is ours as well. */
function byProgram(path: string): number | undefined {
  const file = openSync(path, "a", 0o600);
  const { status, error } = spawnSync("flock", ["-n", "3"], {
    stdio: ["ignore", "ignore", "ignore", file],
  });
  if (status === 0) return file;
  closeSync(file);
  if (error) throw unavailable("serve needs flock(1), as util-linux and busybox have it");
  return undefined;
}

function atOpen(path: string): number | undefined {
  const { O_CREAT, O_RDWR, O_NONBLOCK } = constants;
  try {
    return openSync(path, O_CREAT | O_RDWR | O_NONBLOCK | O_EXLOCK, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return undefined;
    throw error;
  }
}
