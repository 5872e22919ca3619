//! Running other programs: where, with which environment, and what is said when they fail.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of the workspace. Cargo names xtask's own folder when it runs it, so that a moved
/// clone needs no rebuild.
pub fn root() -> PathBuf {
    let own = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A command run in the workspace's folder.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A program that is on the path.
pub fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The cargo that runs xtask, without what it set for xtask alone.
pub fn cargo(words: &[&str]) -> Command {
    let mut command = command(&env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(words).env_remove("CARGO_TARGET_DIR");
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Says what happens next, in the manner of cargo.
pub fn say(verb: &str, what: &str) {
    eprintln!("{verb:>12} {what}");
}

/// Runs a command to its end; a failure is one sentence that shows the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("`{}` could not be started", line(command)))?;
    if status.success() { Ok(()) } else { bail!("`{}` failed ({status}); its own message is above", line(command)) }
}

/// The command as one would type it, from the workspace's folder.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = command.get_args().map(|word| word.to_string_lossy());
    std::iter::once(program.to_string_lossy()).chain(words).collect::<Vec<_>>().join(" ")
}
