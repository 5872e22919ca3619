//! Bytes as the text of a script: about a fifth longer than they are, and through gzip as short as they are. In base64 gzip
//! does not find what repeats, since it starts at another of three places each time.
//!
//! A byte below 90 is one character, any other one two; `src/binding/wasm.default.ts` reads it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::freshness::make_room;

/// So many values there are of a character.
const VALUES: usize = 92;
/// Values from here on begin a pair.
const PAIRS: usize = 90;

/// Writes a script whose default export is what `module` holds.
pub fn write(module: &Path, script: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("{} cannot be read", module.display()))?;
    make_room(script)?;
    fs::write(script, format!("export default \"{}\";\n", encode(&bytes)))
        .with_context(|| format!("{} cannot be written", script.display()))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 4);
    for byte in bytes.iter().map(|byte| usize::from(*byte)) {
        match byte.checked_sub(PAIRS) {
            None => text.push(character(byte)),
            Some(rest) => text.extend([character(PAIRS + rest / VALUES), character(rest % VALUES)]),
        }
    }
    text
}

/// From `#` to `~`, but for what would have to be escaped in a string or would end a script in a page.
fn character(value: usize) -> char {
    match value as u8 + b'#' {
        b'\\' => ' ',
        b'<' => '!',
        other => char::from(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_text_of_its_own_that_needs_no_escaping() {
        let texts: std::collections::HashSet<String> = (0..=255).map(|byte| encode(&[byte])).collect();
        assert_eq!(texts.len(), 256);
        assert!(texts.iter().all(|text| text.chars().all(|it| matches!(it, ' '..='~') && !"\"\\<".contains(it))));
        // What begins a pair stands for no byte by itself.
        assert!(texts.iter().all(
            |text| text.len() == 2 || !texts.iter().any(|pair| pair.len() == 2 && pair.starts_with(text.as_str()))
        ));
    }
}
