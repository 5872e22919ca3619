//! The interfaces in `wit/`, rendered into `docs/wit.md`: every item is documented there, and nothing else is said.

use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use wit_parser::{
    Docs, Function, FunctionKind, Interface, PackageId, Resolve, Type, TypeDef, TypeDefKind, WorldId, WorldItem,
    WorldKey,
};

use crate::command::{root, say};
use crate::freshness::make_room;

const PAGE: &str = "docs/wit.md";

/// Writes the page.
pub fn write() -> Result<ExitCode> {
    let page = root().join(PAGE);
    make_room(&page)?;
    fs::write(&page, render()?).with_context(|| format!("{PAGE} cannot be written"))?;
    say("Written", PAGE);
    Ok(ExitCode::SUCCESS)
}

/// Refuses a page that is not what `write` would write.
pub fn check() -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    ensure!(page == render()?, "{PAGE} is not what wit/ says; `cargo xtask wit` writes it anew");
    Ok(())
}

/// A world of `wit/`, as documented.
pub fn world(name: &str) -> Result<(Resolve, WorldId)> {
    let (resolve, package) = read()?;
    let world = resolve.select_world(&[package], Some(name))?;
    Ok((resolve, world))
}

fn read() -> Result<(Resolve, PackageId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).context("wit/ cannot be read")?;
    Ok((resolve, package))
}

fn render() -> Result<String> {
    let (resolve, package) = read()?;
    let package = &resolve.packages[package];
    let mut page = String::from("<!-- Rendered from wit/ by `cargo xtask wit`. -->\n\n");
    write!(page, "# Package {}\n\n{}\n", package.name, prose(&package.docs, "the package")?)?;

    page.push_str("## Worlds\n\n| world | imports | exports | what it is |\n| --- | --- | --- | --- |\n");
    for (name, world) in &package.worlds {
        let world = &resolve.worlds[*world];
        let list = |items: &mut dyn Iterator<Item = (&WorldKey, &WorldItem)>| {
            let names: Vec<_> = items.map(|(key, _)| link(&resolve, key)).collect();
            if names.is_empty() { "nothing".into() } else { names.join(", ") }
        };
        let (imports, exports) = (list(&mut world.imports.iter()), list(&mut world.exports.iter()));
        writeln!(page, "| `{name}` | {imports} | {exports} | {} |", cell(&world.docs, name)?)?;
    }
    for (name, interface) in &package.interfaces {
        page.push_str(&render_interface(&resolve, name, &resolve.interfaces[*interface])?);
    }
    Ok(page)
}

fn render_interface(resolve: &Resolve, name: &str, interface: &Interface) -> Result<String> {
    let mut page = format!("\n## Interface {name}\n\n{}", prose(&interface.docs, name)?);
    for (name, function) in &interface.functions {
        write!(page, "\n### Function {name}\n\n{}\n```wit\n", prose(&function.docs, name)?)?;
        writeln!(page, "{}\n```", signature(resolve, function))?;
    }
    for (name, id) in &interface.types {
        page.push_str(&render_type(resolve, name, &resolve.types[*id])?);
    }
    Ok(page)
}

/// A type of the interface's own; what it uses of another is shown there.
fn render_type(resolve: &Resolve, name: &str, definition: &TypeDef) -> Result<String> {
    let kind = definition.kind.as_str();
    let items: Vec<(&str, Option<Type>, &Docs)> = match &definition.kind {
        TypeDefKind::Record(record) => {
            record.fields.iter().map(|field| (field.name.as_str(), Some(field.ty), &field.docs)).collect()
        }
        TypeDefKind::Variant(variant) => {
            variant.cases.iter().map(|case| (case.name.as_str(), case.ty, &case.docs)).collect()
        }
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| (case.name.as_str(), None, &case.docs)).collect(),
        _ => return Ok(String::new()),
    };
    let mut page =
        format!("\n### {}{} {name}\n\n{}\n", kind[..1].to_uppercase(), &kind[1..], prose(&definition.docs, name)?);
    let head = if matches!(definition.kind, TypeDefKind::Record(_)) { "field" } else { "case" };
    writeln!(page, "| {head} | type | what it is |\n| --- | --- | --- |")?;
    for (item, ty, docs) in items {
        let ty = ty.map(|ty| format!("`{}`", shown(resolve, &ty))).unwrap_or_default();
        writeln!(page, "| `{item}` | {ty} | {} |", cell(docs, &format!("{name}.{item}"))?)?;
    }
    Ok(page)
}

fn signature(resolve: &Resolve, function: &Function) -> String {
    let params: Vec<_> =
        function.params.iter().map(|param| format!("{}: {}", param.name, shown(resolve, &param.ty))).collect();
    let result = function.result.map(|result| format!(" -> {}", shown(resolve, &result))).unwrap_or_default();
    let is_async = matches!(function.kind, FunctionKind::AsyncFreestanding);
    let func = if is_async { "async func" } else { "func" };
    format!("{}: {func}({}){result}", function.name, params.join(", "))
}

fn shown(resolve: &Resolve, ty: &Type) -> String {
    let Type::Id(id) = ty else { return primitive(ty).into() };
    let definition = &resolve.types[*id];
    if let Some(name) = &definition.name {
        return name.clone();
    }
    let maybe = |ty: &Option<Type>| ty.map_or("_".into(), |ty| shown(resolve, &ty));
    match &definition.kind {
        TypeDefKind::Option(inner) => format!("option<{}>", shown(resolve, inner)),
        TypeDefKind::List(inner) => format!("list<{}>", shown(resolve, inner)),
        TypeDefKind::Result(result) => format!("result<{}, {}>", maybe(&result.ok), maybe(&result.err)),
        other => other.as_str().into(),
    }
}

fn primitive(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => "",
    }
}

fn link(resolve: &Resolve, key: &WorldKey) -> String {
    match key {
        WorldKey::Name(name) => format!("`{name}`"),
        WorldKey::Interface(id) => {
            let name = resolve.interfaces[*id].name.as_deref().unwrap_or_default();
            format!("[{name}](#interface-{name})")
        }
    }
}

fn cell(docs: &Docs, item: &str) -> Result<String> {
    Ok(prose(docs, item)?.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
}

/// Every item is documented: one that is not stops the rendering.
fn prose(docs: &Docs, item: &str) -> Result<String> {
    let text = docs.contents.as_deref().unwrap_or_default().trim();
    ensure!(!text.is_empty(), "{item} in wit/ has no documentation (`///`)");
    Ok(format!("{text}\n"))
}
