//! `start`: the Worker under `wrangler dev`, for local use, until Ctrl-C.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::tools::npm;
use crate::{build, command};

const DEFAULT_PORT: u16 = 8787;
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(100);
/// How often a Worker that has answered is asked whether it still does, and how long one answer may take.
const ROUND: Duration = Duration::from_secs(3);
/// wrangler starts a workerd that was killed again, but may go on sending requests to the one that is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// So many new starts within so long do not help.
const STARTS: usize = 3;
const STARTS_WITHIN: Duration = Duration::from_secs(120);

pub fn start() -> Result<ExitCode> {
    let port = port()?;
    if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
        bail!("port {port} is taken; `PORT={} cargo xtask start` takes another", port.wrapping_add(1).max(1024));
    }
    build::for_start()?;

    let (tell, told) = mpsc::channel();
    ctrlc::set_handler(move || tell.send(()).unwrap_or_default()).context("the signals cannot be caught")?;
    let mut silences = Vec::new();
    loop {
        let mut server = Server::spawn(port)?;
        if let Some(code) = server.until_it_answers(port, &told)? {
            return Ok(code);
        }
        println!("Leasehold answers on http://127.0.0.1:{port} (Ctrl-C ends it)");
        println!("It is open: without keys, for local use only. A deployed Worker refuses until it has keys.");
        if let Some(code) = server.until_told_or_silent(port, &told)? {
            return Ok(code);
        }
        silences.retain(|silence: &Instant| silence.elapsed() < STARTS_WITHIN);
        if silences.len() == STARTS {
            bail!(
                "the Worker stops answering /healthz, also after {STARTS} new starts; the log in .wrangler/logs may say why"
            );
        }
        silences.push(Instant::now());
        let seconds = SILENCE.as_secs();
        println!("The Worker has not answered for {seconds} seconds: it is ended and started again on the same state.");
    }
}

fn port() -> Result<u16> {
    match env::var("PORT") {
        Err(_) => Ok(DEFAULT_PORT),
        Ok(text) => match text.parse() {
            Ok(port) if port > 0 => Ok(port),
            _ => bail!("PORT is \"{text}\", not a port; `PORT={DEFAULT_PORT} cargo xtask start` is the default"),
        },
    }
}

/// wrangler and the workerd it starts, in a process group of their own; dropped, all of it is gone.
struct Server(Child);

impl Server {
    fn spawn(port: u16) -> Result<Server> {
        let port = port.to_string();
        let mut wrangler = npm("wrangler");
        wrangler
            .args(["dev", "--ip", "127.0.0.1", "--port", &port, "--inspector-port", "0"])
            .args(["--persist-to", ".wrangler/state"])
            // Only here: the configuration that is deployed has no such variable, and refuses without keys.
            .args(["--var", "LEASEHOLD_OPEN:true"])
            .args(["--show-interactive-dev-session=false", "--log-level", "warn"])
            .stdin(Stdio::null())
            .process_group(0);
        let child = wrangler.spawn().with_context(|| format!("`{}` could not be started", command::line(&wrangler)))?;
        Ok(Server(child))
    }

    /// Waits for the first answer; an exit code when the user ended it before.
    fn until_it_answers(&mut self, port: u16, told: &Receiver<()>) -> Result<Option<ExitCode>> {
        let started = Instant::now();
        while !answers(port) {
            if told.recv_timeout(GLANCE) != Err(RecvTimeoutError::Timeout) {
                return Ok(Some(ExitCode::SUCCESS));
            }
            self.still_runs()?;
            if started.elapsed() > PATIENCE {
                bail!(
                    "the Worker did not answer /healthz within {} seconds; the log in .wrangler/logs may say why",
                    PATIENCE.as_secs()
                );
            }
        }
        Ok(None)
    }

    /// An exit code when the user ended it, none when it does not answer any more.
    fn until_told_or_silent(&mut self, port: u16, told: &Receiver<()>) -> Result<Option<ExitCode>> {
        let mut asked = Instant::now();
        let mut answered = asked;
        while told.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
            self.still_runs()?;
            if asked.elapsed() < ROUND {
                continue;
            }
            let answers = answers(port);
            asked = Instant::now();
            if answers {
                answered = asked;
            } else if answered.elapsed() > SILENCE {
                return Ok(None);
            }
        }
        Ok(Some(ExitCode::SUCCESS))
    }

    fn still_runs(&mut self) -> Result<()> {
        match self.0.try_wait().context("wrangler cannot be watched")? {
            None => Ok(()),
            Some(status) => bail!("wrangler ended by itself ({status}); its own message is above"),
        }
    }
}

impl Drop for Server {
    /// First a request, so that wrangler can put its state away, then force: also on a workerd that
    /// outlived wrangler.
    fn drop(&mut self) {
        let Ok(group) = i32::try_from(self.0.id()).map(Pid::from_raw) else {
            return;
        };
        killpg(group, Signal::SIGTERM).ok();
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(GLANCE);
        }
        killpg(group, Signal::SIGKILL).ok();
        self.0.wait().ok();
    }
}

/// Whether `GET /healthz` is answered with 200.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return false;
    };
    let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n");
    let mut status = [0; 12];
    stream.set_read_timeout(Some(ROUND)).is_ok()
        && stream.write_all(request.as_bytes()).is_ok()
        && stream.read_exact(&mut status).is_ok()
        && &status == b"HTTP/1.1 200"
}
