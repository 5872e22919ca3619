//! The types of the npm package: of what tsc writes into `target/types`, `dist/types` has what the entries reach. The rest
//! is nobody's concern, and would name modules that are not shipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::root;
use crate::freshness::make_room;

/// The files that package.json names, without their ending.
const ENTRIES: [&str; 3] = ["binding/index", "worker/worker", "fence/index"];

/// Fills `dist/types`.
pub fn publish() -> Result<()> {
    let mut reached = BTreeMap::new();
    for entry in ENTRIES {
        reach(Path::new(entry), &mut reached)?;
    }
    let folder = root().join("dist/types");
    // What an earlier build had and this one has not.
    fs::remove_dir_all(&folder).ok();
    for (module, text) in reached {
        let file = folder.join(&module).with_extension("d.ts");
        make_room(&file)?;
        fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

fn reach(module: &Path, reached: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    if reached.contains_key(module) {
        return Ok(());
    }
    let file = root().join("target/types").join(module.with_extension("d.ts"));
    let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    ensure!(!text.contains("\"#"), "{} names a module that the package does not ship", file.display());
    let imported: Vec<PathBuf> = imports(&text).map(|name| beside(module, name)).collect();
    reached.insert(module.to_path_buf(), text);
    imported.iter().try_for_each(|module| reach(module, reached))
}

/// What is quoted and names a file nearby, without its ending `.ts`.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2).filter(|quoted| quoted.starts_with('.')).filter_map(|it| it.strip_suffix(".ts"))
}

fn beside(module: &Path, name: &str) -> PathBuf {
    let mut path = module.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(name).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_followed_to_the_file_it_names() {
        let text = "import type { A } from \"./a.ts\";\nimport \"pg\";\nexport { B } from \"../fence/b.ts\";\n";
        let found: Vec<_> = imports(text).map(|name| beside(Path::new("binding/index"), name)).collect();
        assert_eq!(found, [Path::new("binding/a"), Path::new("fence/b")]);
    }
}
