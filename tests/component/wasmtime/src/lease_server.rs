//! A lease server over one file, with the component deciding: an example of a host.
//!
//! It speaks the protocol over HTTP (`POST /v1/spaces/default/locks/{lock}/{verb}`) and does four things in order: load,
//! decide, commit, reply. The rest of it is a file, and HTTP.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use wasmtime::{Error, Result, format_err};

use crate::wire::{Answer, Message};
use crate::{Instance, kernel};

/// The single writer: whoever has the desk decides and commits.
pub struct LeaseServer(Mutex<Desk>);

struct Desk {
    instance: Instance,
    file: SpaceFile,
    /// The waiters whose lines are held, by lock, token and requestId.
    lines: HashMap<(String, String, String), Sender<Message>>,
}

impl LeaseServer {
    /// # Errors
    /// Where there is no component, or the file is not one of this server's.
    pub fn open(file: &Path) -> Result<Arc<Self>> {
        let desk = Desk { instance: Instance::new()?, file: SpaceFile::open(file)?, lines: HashMap::new() };
        Ok(Arc::new(Self(Mutex::new(desk))))
    }

    /// Load, decide, commit, and only then reply: here to the waiters, by what is returned to the asker.
    fn decide(&self, op: &str, lock: &str, fields: &str) -> Result<(Answer, Option<Receiver<Message>>)> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Desk { instance, file, lines } = &mut *guard;

        let prior = file.records.get(lock).map(Vec::as_slice);
        let space =
            kernel::Space { name: "default".into(), last_fence: file.last_fence, fence_floor: now_ms() * 1_000 };
        let limits = kernel::Limits { remember_ms: 60_000, record_bytes_max: 1 << 20 };
        let answer = instance
            .decide(prior, op, lock, fields, now_ms(), &space, limits)?
            .map_err(|fault| format_err!("the record of {lock} is left as it is: {fault:?}"))?;

        let before = file.apply(lock, &answer.change, answer.last_fence);
        if let Err(error) = file.save() {
            file.put_back(lock, before);
            return Err(error.into());
        }
        for told in &answer.waiters {
            let line = (lock.to_string(), told.ask.token.clone(), told.ask.request_id.clone());
            if let Some(line) = lines.remove(&line) {
                line.send(told.message.clone()).ok();
            }
        }
        let line = match (op, answer.message.status) {
            ("acquire", 202) => {
                let ((token, request_id), (tell, told)) = (ask(fields), mpsc::channel());
                lines.insert((lock.into(), token, request_id), tell);
                Some(told)
            }
            _ => None,
        };
        Ok((answer, line))
    }

    /// The answer to one request: at once, or for an ask that waits when it is served or has waited long enough.
    fn answer(&self, op: &str, lock: &str, fields: &str) -> Result<Message> {
        let (answer, line) = self.decide(op, lock, fields)?;
        let Some(line) = line else { return Ok(answer.message) };
        let deadline = now_ms() + parsed(&answer.message.body)["retryAfterMs"].as_u64().unwrap_or(0);
        let mut wake_at = answer.wake_at;
        loop {
            let until = wake_at.unwrap_or(deadline).min(deadline);
            match line.recv_timeout(Duration::from_millis(until.saturating_sub(now_ms()))) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) if now_ms() < deadline => {
                    wake_at = self.decide("tick", lock, "{}")?.0.wake_at;
                }
                // Or the same ask came again over another line: this one hears how things stand.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let (token, request_id) = ask(fields);
                    let ask = json!({ "token": token, "requestId": request_id }).to_string();
                    return Ok(self.decide("standing", lock, &ask)?.0.message);
                }
            }
        }
    }

    /// Serves until the process ends.
    pub fn serve(self: Arc<Self>, listener: TcpListener) {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&self);
            thread::spawn(move || server.connection(stream));
        }
    }

    /// Serves the requests of one connection.
    fn connection(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let message = match request.target() {
                Some((lock, op)) => self.answer(&op, &lock, &request.body).unwrap_or_else(|error| unavailable(&error)),
                None => Message { status: 404, body: r#"{"code":"not_found"}"#.into() },
            };
            let Message { status, body } = message;
            let head = format!(
                "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            (&stream).write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }
}

/// Nobody is told what happened, because nobody knows.
fn unavailable(error: &Error) -> Message {
    eprintln!("lease server: {error:#}");
    Message { status: 503, body: r#"{"code":"unavailable"}"#.into() }
}

/// One file for a space: the last fence, then a line a lock. It is replaced whole, so that a commit is all or nothing.
struct SpaceFile {
    path: PathBuf,
    last_fence: u64,
    records: BTreeMap<String, Vec<u8>>,
    is_saved: bool,
}

impl SpaceFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = Self { path: path.into(), last_fence: 0, records: BTreeMap::new(), is_saved: true };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(file),
            Err(error) => return Err(error),
        };
        let damaged = || io::Error::other("not a file of this server");
        let mut lines = text.lines();
        file.last_fence = lines.next().and_then(|line| line.parse().ok()).ok_or_else(damaged)?;
        for line in lines {
            let (lock, record) = line.split_once(' ').ok_or_else(damaged)?;
            let lock = String::from_utf8(from_hex(lock)).map_err(|_| damaged())?;
            file.records.insert(lock, from_hex(record));
        }
        Ok(file)
    }

    /// What there was before.
    fn apply(&mut self, lock: &str, change: &kernel::Change, last_fence: u64) -> (u64, Option<Vec<u8>>) {
        let before = (self.last_fence, self.records.get(lock).cloned());
        match change {
            kernel::Change::Unchanged => {}
            kernel::Change::Store(record) => drop(self.records.insert(lock.into(), record.clone())),
            kernel::Change::Delete => drop(self.records.remove(lock)),
        }
        self.last_fence = last_fence;
        self.is_saved &= matches!(change, kernel::Change::Unchanged) && before.0 == last_fence;
        before
    }

    fn put_back(&mut self, lock: &str, (last_fence, record): (u64, Option<Vec<u8>>)) {
        self.last_fence = last_fence;
        match record {
            Some(record) => drop(self.records.insert(lock.into(), record)),
            None => drop(self.records.remove(lock)),
        }
    }

    fn save(&mut self) -> io::Result<()> {
        if self.is_saved {
            return Ok(());
        }
        let lines =
            self.records.iter().map(|(lock, record)| format!("{} {}\n", to_hex(lock.as_bytes()), to_hex(record)));
        let text = format!("{}\n{}", self.last_fence, lines.collect::<String>());
        let draft = self.path.with_extension("draft");
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        self.is_saved = true;
        Ok(())
    }
}

/// As much of an HTTP request as a lease server needs.
struct Request {
    path: String,
    body: String,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_string();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let Some((name, value)) = header.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = String::new();
        reader.take(length).read_to_string(&mut body)?;
        Ok(Some(Self { path, body }))
    }

    /// The lock and the verb.
    fn target(&self) -> Option<(String, String)> {
        let rest = self.path.strip_prefix("/v1/spaces/default/locks/")?;
        let (lock, op) = rest.split_once('/').unwrap_or((rest, "inspect"));
        let is_verb = ["acquire", "renew", "release", "cancel", "revoke", "inspect"].contains(&op);
        is_verb.then_some((percent_decoded(lock)?, op.to_string()))
    }
}

fn percent_decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => u8::from_str_radix(std::str::from_utf8(&[rest.next()?, rest.next()?]).ok()?, 16).ok()?,
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The token and the requestId of a body that the component has accepted.
fn ask(fields: &str) -> (String, String) {
    let fields = parsed(fields);
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_string();
    (text("token"), text("requestId"))
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(u64::MAX)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |byte, half| byte << 4 | digit(half))).collect()
}
