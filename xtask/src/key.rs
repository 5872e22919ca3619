//! `key`: makes a key at random and prints it with its entry for the secret `LEASEHOLD_KEYS`. It is kept nowhere.

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::command::say;

const USAGE: &str = "cargo xtask key <id> --spaces <name or prefix*>,.. --allow <read | lock | admin>,..";

const RIGHTS: [&str; 3] = ["read", "lock", "admin"];

pub fn make(words: &[&str]) -> Result<ExitCode> {
    let entry = Entry::read(words)?;
    let mut random = [0; 32];
    // The system's own source, which does not run dry.
    let mut source = File::open("/dev/urandom").context("the system has no source of randomness")?;
    source.read_exact(&mut random).context("the system has no source of randomness")?;
    let key = format!("lh_{}", base64url(&random));
    say("Key", "for its holder, shown this once:");
    println!("{key}");
    say("Entry", "for the list that is the secret LEASEHOLD_KEYS:");
    println!("{}", entry.json(&key));
    say("Next", "`npx wrangler secret put LEASEHOLD_KEYS` asks for the whole list, [entry, entry]");
    Ok(ExitCode::SUCCESS)
}

struct Entry<'a> {
    id: &'a str,
    spaces: Vec<&'a str>,
    rights: Vec<&'a str>,
}

impl<'a> Entry<'a> {
    fn read(words: &[&'a str]) -> Result<Self> {
        let (id, spaces, rights) = match *words {
            [id, "--spaces", spaces, "--allow", rights] | [id, "--allow", rights, "--spaces", spaces] => {
                (id, spaces, rights)
            }
            _ => bail!("a key takes an id, spaces and rights: {USAGE}"),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ensure!(
            (1..=64).contains(&id.len()) && id.bytes().all(is_plain),
            "the id must be 1 to 64 letters, digits, dots, underscores and hyphens"
        );
        let entry = Self { id, spaces: spaces.split(',').collect(), rights: rights.split(',').collect() };
        for (at, right) in entry.rights.iter().enumerate() {
            let is_first = entry.rights.iter().position(|other| other == right) == Some(at);
            ensure!(RIGHTS.contains(right) && is_first, "--allow takes read, lock and admin, each at most once");
        }
        for space in &entry.spaces {
            let name = space.strip_suffix('*').unwrap_or(space);
            let is_name = !name.starts_with('-') && !name.contains('*') && name.len() <= 512;
            ensure!(!space.is_empty() && is_name, "--spaces takes names of spaces, each of which may end with a *");
        }
        Ok(entry)
    }

    fn json(&self, key: &str) -> String {
        let sha256: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        let list = |texts: &[&str]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(",");
        let (spaces, rights) = (list(&self.spaces), list(&self.rights));
        format!("{{\"id\":\"{}\",\"sha256\":\"{sha256}\",\"spaces\":[{spaces}],\"allow\":[{rights}]}}", self.id)
    }
}

fn quoted(text: &str) -> String {
    let escaped = |char: char| match char {
        '"' | '\\' => format!("\\{char}"),
        control if control < ' ' => format!("\\u{:04x}", u32::from(control)),
        plain => plain.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Without padding: it fits in a header and in a WebSocket subprotocol.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[bits >> (18 - 6 * digit) & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_the_secret_takes() {
        let entry = Entry::read(&["ci", "--spaces", "tenant-*,default", "--allow", "read,lock"]).unwrap();
        // SHA-256 of "abc" is the first example of FIPS 180-2.
        assert_eq!(
            entry.json("abc"),
            "{\"id\":\"ci\",\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\
             \"spaces\":[\"tenant-*\",\"default\"],\"allow\":[\"read\",\"lock\"]}"
        );
    }

    #[test]
    fn what_the_secret_would_not_take_is_refused() {
        for words in [
            &["ci"][..],
            &["", "--spaces", "a", "--allow", "read"],
            &["a b", "--spaces", "a", "--allow", "read"],
            &["ci", "--spaces", "a*b", "--allow", "read"],
            &["ci", "--spaces", "a,", "--allow", "read"],
            &["ci", "--spaces", "a", "--allow", "write"],
            &["ci", "--spaces", "a", "--allow", "read,read"],
        ] {
            assert!(Entry::read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn base64url_is_that_of_rfc_4648() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
    }
}
