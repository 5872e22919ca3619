//! A Worker of a user's own, in Rust, that keeps leases in the same script.

use std::cell::Cell;
use std::time::Duration;

use leasehold::client::{Ask, Command, Denied, Lease, Leases, Patience, Revoke, Ttl};
use worker::{Context, Delay, Env, Request, Response, Result, event};

thread_local! {
    /// What the lock guards: read, waited, written.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> Result<Response> {
    let leases = Leases::new(&env, "LEASES")?;
    match request.path().as_str() {
        "/count" => Response::ok(count(&leases).await?.to_string()),
        "/refused" => told(refused(&leases).await),
        "/timed-out" => told(timed_out(&leases).await),
        "/unheard" => told(unheard(&Leases::new(&env, "DEAF")?).await),
        "/renewed" => told(renewed(&leases).await),
        "/revoked" => told(revoked(&leases).await),
        "/fence" => Response::ok(leases.hold("e", Ask::default(), async |lease| lease.fence()).await?.to_string()),
        "/wrong" => told(leases.hold("-", Ask::default(), async |_| "not run").await),
        _ => Response::ok("a Worker in Rust"),
    }
}

/// One more, and under a larger fence than the last one.
async fn count(leases: &Leases) -> std::result::Result<u32, Denied> {
    let count = async |_| {
        let next = COUNT.get() + 1;
        Delay::from(Duration::from_millis(5)).await;
        COUNT.set(next);
        next
    };
    leases.hold("counter", Ask::default(), count).await
}

async fn refused(leases: &Leases) -> std::result::Result<&'static str, Denied> {
    let at_once = Ask { patience: Patience::None, ..Ask::default() };
    leases.hold("a", Ask::default(), async |_| leases.hold("a", at_once, async |_| "not run").await).await?
}

async fn timed_out(leases: &Leases) -> std::result::Result<&'static str, Denied> {
    let a_moment = Ask { patience: Patience::For(100), ..Ask::default() };
    leases.hold("b", Ask::default(), async |_| leases.hold("b", a_moment, async |_| "not run").await).await?
}

/// Asks a store that answers nothing.
async fn unheard(leases: &Leases) -> std::result::Result<&'static str, Denied> {
    let a_moment = Ask { patience: Patience::For(100), ..Ask::default() };
    leases.hold("a", a_moment, async |_| "not run").await
}

/// Works for three times as long as a lease lasts.
async fn renewed(leases: &Leases) -> std::result::Result<&'static str, Denied> {
    let work = async |lease: Lease| {
        Delay::from(Duration::from_millis(4_500)).await;
        if lease.is_held() { "held" } else { "not held" }
    };
    leases.hold("c", Ask { ttl: Ttl::new(1_500.0)?, ..Ask::default() }, work).await
}

/// Somebody else ends the lease: the work is not run to its end.
async fn revoked(leases: &Leases) -> std::result::Result<&'static str, Denied> {
    let work = async |_| {
        let revoke = Command::Revoke(Revoke { fence: None, reason: None });
        let reply = leases.send("d", &revoke).await;
        Delay::from(Duration::from_secs(60)).await;
        if reply.is_ok() { "run to its end" } else { "not revoked" }
    };
    leases.hold("d", Ask { ttl: Ttl::new(3_000.0)?, ..Ask::default() }, work).await
}

fn told(outcome: std::result::Result<&'static str, Denied>) -> Result<Response> {
    match outcome {
        Ok(output) => Response::ok(output),
        Err(denied) => Response::ok(denied.to_string()),
    }
}
