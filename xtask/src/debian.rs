//! Debian's packages, for what neither cargo nor npm has.

use std::process::{Command, Stdio};

use crate::command::{command, say};

/// A mirror that does not answer is asked so often.
const TRIES: usize = 3;

/// Tries to install packages. Without the rights, or on another system, this comes to nothing: whoever needs one
/// looks for it afterwards.
pub fn install(packages: &[&str]) {
    say("Installing", &packages.join(", "));
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    (0..TRIES).any(|_| {
        // Where one of several mirrors does not answer, what is known may do.
        apt_get(&["update"]);
        apt_get(&install)
    });
}

/// Whether it did.
fn apt_get(words: &[&str]) -> bool {
    let mut apt = env_with_rights();
    // As in single-user mode, so that no server is started: whoever wants one starts its own.
    apt.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "--quiet"]).args(words);
    let status = apt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// `env`, by sudo where that asks for no password.
fn env_with_rights() -> Command {
    if !may_sudo() {
        return command("env");
    }
    let mut sudo = command("sudo");
    sudo.args(["-n", "env"]);
    sudo
}

fn may_sudo() -> bool {
    let mut sudo = command("sudo");
    sudo.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sudo.status().is_ok_and(|status| status.success())
}
