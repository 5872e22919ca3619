//! The example of a host, with clients over the loopback: exclusion, order, what is kept across a restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wasmtime_host::lease_server::LeaseServer;

#[test]
fn clients_that_compete_hold_it_one_at_a_time() {
    let address = start(&file("compete"));
    let (inside, fences) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for client in 0..8 {
            let (inside, fences) = (&inside, &fences);
            scope.spawn(move || {
                let mut client = Client::new(address, format!("client {client}"));
                for round in 0..10 {
                    let fence = client.acquire("lock", &format!("{round}"), 10_000);
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    fences.lock().unwrap().push(fence);
                    thread::sleep(Duration::from_millis(1));
                    inside.fetch_sub(1, Ordering::SeqCst);
                    let released = client.post("lock", "release", json!({ "token": client.token, "fence": fence }));
                    assert_eq!(released, (200, json!({ "status": "released" })));
                }
            });
        }
    });
    let fences = fences.into_inner().unwrap();
    assert_eq!(fences.len(), 80);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_holder_that_dies_is_succeeded_when_its_ttl_has_passed() {
    let address = start(&file("dies"));
    let (mut dies, mut waits) = (Client::new(address, "a".into()), Client::new(address, "b".into()));
    let (_, granted) = dies.post("lock", "acquire", json!({ "token": "a", "requestId": "1", "ttlMs": 300 }));
    assert_eq!(granted["status"], "granted");
    let asked = Instant::now();
    let fence = waits.acquire("lock", "1", 30_000);
    assert!((200..3_000).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    assert!(fence > granted["lease"]["fence"].as_u64().unwrap());
    let late = dies.post("lock", "renew", json!({ "token": "a", "fence": granted["lease"]["fence"] }));
    assert_eq!(late, (409, json!({ "status": "lost", "reason": "expired" })));
}

#[test]
fn what_was_told_is_there_after_a_restart() {
    let file = file("restart");
    let mut before = Client::new(start(&file), "a".into());
    let (_, granted) = before.post("a/b", "acquire", json!({ "token": "a", "requestId": "1" }));
    let fence = granted["lease"]["fence"].as_u64().unwrap();

    // The first server goes on; nobody asks it any more.
    let mut after = Client::new(start(&file), "b".into());
    let (status, held) = after.post("a/b", "acquire", json!({ "token": "b", "requestId": "1" }));
    assert_eq!((status, &held["holders"][0]["fence"]), (409, &json!(fence)));
    assert_eq!(after.post("a/b", "release", json!({ "token": "a", "fence": fence })).0, 200);
    assert!(after.acquire("other", "2", 0) > fence);
    let (status, refused) = after.post("a/b", "acquire", json!({ "token": "b", "requestId": "3", "ttlMs": 1.5 }));
    assert_eq!((status, &refused["field"]), (400, &json!("ttlMs")));
}

fn start(file: &Path) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = LeaseServer::open(file).expect("the component is there, and the file is a space");
    thread::spawn(move || server.serve(listener));
    address
}

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("leasehold-{}-{name}", std::process::id()));
    std::fs::remove_file(&path).ok();
    path
}

struct Client {
    stream: BufReader<TcpStream>,
    token: String,
}

impl Client {
    fn new(address: SocketAddr, token: String) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(address).expect("the server listens")), token }
    }

    fn acquire(&mut self, lock: &str, request_id: &str, wait_ms: u64) -> u64 {
        let fields = json!({ "token": self.token, "requestId": request_id, "ttlMs": 60_000, "waitMs": wait_ms });
        let (status, reply) = self.post(lock, "acquire", fields);
        assert_eq!((status, &reply["status"]), (200, &json!("granted")), "{reply}");
        reply["lease"]["fence"].as_u64().expect("a fence")
    }

    fn post(&mut self, lock: &str, op: &str, fields: Value) -> (u16, Value) {
        let (lock, body) = (lock.replace('/', "%2F"), fields.to_string());
        let head =
            format!("POST /v1/spaces/default/locks/{lock}/{op} HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all((head + &body).as_bytes()).expect("the server reads");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.stream.read_line(&mut head).expect("the server writes"), 0, "the server hung up");
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.parse().expect("a number")];
        self.stream.read_exact(&mut body).expect("the whole body");
        (status, serde_json::from_slice(&body).expect("JSON"))
    }
}
