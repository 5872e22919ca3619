//! Steps that need not be repeated: a step is fresh while its inputs hash to what they did when it last
//! succeeded and its outputs exist. Cargo does this for itself; this is for what comes after it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

pub struct Step<'a> {
    /// Where the hash of the inputs is kept.
    pub stamp: PathBuf,
    /// What makes the outputs, as far as that is not a file.
    pub maker: String,
    pub inputs: &'a [PathBuf],
    pub outputs: &'a [PathBuf],
}

impl Step<'_> {
    /// Does the work unless it is done already.
    pub fn unless_fresh(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let hash = format!("{:016x}", self.hash()?);
        let done = fs::read_to_string(&self.stamp).is_ok_and(|stamp| stamp == hash);
        if done && self.outputs.iter().all(|output| output.exists()) {
            return Ok(());
        }
        // An interrupted run must not leave a stamp that vouches for half of the outputs.
        fs::remove_file(&self.stamp).ok();
        work()?;
        write(&self.stamp, hash.as_bytes())
    }

    fn hash(&self) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.maker.hash(&mut hasher);
        for input in self.inputs {
            read(input)?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

/// This build of xtask, for steps whose code is part of what they make.
pub fn this_xtask() -> Result<String> {
    let own = std::env::current_exe().and_then(fs::metadata).context("xtask cannot find itself")?;
    Ok(format!("{} {:?}", own.len(), own.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
}

/// Reads a file; a failure names it.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// Writes a file and the folders above it; a failure names it.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    make_room(path)?;
    fs::write(path, content).with_context(|| format!("{} cannot be written", path.display()))
}

/// Makes the folders above a file.
pub fn make_room(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))
}
