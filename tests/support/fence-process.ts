// node|bun fence-process.ts <file> <which>: a process that writes to one document under fences of its own, in a
// database that other processes have open. Every other fence is its: 2, 4, 6 ... or 3, 5, 7 ...
const [file, which] = process.argv.slice(2) as [string, string];
const isBun = "Bun" in globalThis;
const driver = isBun ? "bun:sqlite" : "node:sqlite";
const { Database, DatabaseSync } = await import(driver);
const { sqliteFence } = await import(new URL("../../dist/fence.js", import.meta.url).href);

const database = new (Database ?? DatabaseSync)(file);
database.exec("PRAGMA busy_timeout = 20000");
const guard = sqliteFence(database);
let refused = 0;
for (let fence = Number(which); fence <= 100; fence += 2) {
  try {
    guard.run("shared", fence, (database: any) => {
      database.prepare("INSERT INTO journal (name, fence) VALUES ('shared', ?)").run(fence);
    });
  } catch (error: any) {
    if (error.code !== "stale_fence") throw error;
    refused += 1;
  }
}
console.log(JSON.stringify({ driver, refused }));
