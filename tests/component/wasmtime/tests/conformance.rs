//! The vectors, decided by the component in wasmtime.

#[path = "../../vectors.rs"]
mod vectors;

use serde_json::Value;
use vectors::{Call, Change, Decided, Kernel};
use wasmtime_host::{Instance, kernel};

#[test]
fn every_vector_holds_in_wasmtime() {
    vectors::play(&mut InWasmtime(Instance::new().expect("the component is there, and imports nothing")));
}

struct InWasmtime(Instance);

impl Kernel for InWasmtime {
    fn decide(&mut self, prior: Option<&[u8]>, call: &Call, now_at: u64, last_fence: u64) -> Decided {
        let space = kernel::Space { name: "a space".into(), last_fence, fence_floor: 0 };
        let limits = kernel::Limits { remember_ms: 3_600_000, record_bytes_max: u64::MAX };
        let answer = self.0.decide(prior, call.op, call.lock, call.fields, now_at, &space, limits);
        let answer = answer.expect("no trap").expect("what it wrote can be read");
        Decided {
            status: answer.message.status,
            reply: json(&answer.message.body),
            change: match answer.change {
                kernel::Change::Unchanged => Change::Unchanged,
                kernel::Change::Store(bytes) => Change::Store(bytes),
                kernel::Change::Delete => Change::Delete,
            },
            last_fence: answer.last_fence,
            waiters: answer
                .waiters
                .into_iter()
                .map(|told| (told.ask.token, told.ask.request_id, json(&told.message.body)))
                .collect(),
            wake_at: answer.wake_at,
            clean_at: answer.clean_at,
        }
    }

    fn read_list(&mut self, fields: &str) -> Result<(String, Option<String>, u64), Value> {
        let page = self.0.read_list(fields).expect("no trap");
        page.map(|page| (page.prefix, page.cursor, page.page_size)).map_err(|refusal| json(&refusal.body))
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("a message is JSON")
}
