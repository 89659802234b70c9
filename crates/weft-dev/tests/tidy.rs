//! Checks of our own sources, as a test: how long functions and files are, who uses whom, and what
//! is not to be left behind. It reads the source tree and nothing else. What may break a rule is
//! listed in `tidy.toml` by rule and name, and who breaks it no more must leave the list.

#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/source.rs"]
mod source;

use std::{collections::BTreeSet, path::Path};

use source::Source;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Nothing breaks a rule but what is listed, and what is listed does.
#[test]
fn sources_are_tidy() {
    let root = Path::new(ROOT);
    let sources = source::all(root);
    assert!(sources.len() > 100, "sources are found");
    let mut found: BTreeSet<String> = sources.iter().flat_map(rules::broken).collect();
    found.extend(rules::arrows(root));
    let listed = listed(root);
    let new: Vec<_> = found.difference(&listed).collect();
    let old: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty(), "tidy: {} to be put right: {new:#?}", new.len());
    assert!(old.is_empty(), "tidy.toml: not needed any more: {old:#?}");
}

/// The lines `"rule name"` of the list; everything else in it is for TOML and people.
fn listed(root: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root.join("tidy.toml")).expect("tidy.toml is there");
    let quoted = |line: &str| line.trim().strip_prefix('"')?.split_once('"').map(|(s, _)| s.into());
    text.lines().filter_map(quoted).collect()
}

fn broken(path: &str, text: &str) -> Vec<String> {
    rules::broken(&Source::new(path.into(), text.into()))
}

/// Every rule finds what it is there for, on both sides of its limit.
#[test]
fn rules_find_what_they_are_there_for() {
    let op = "crates/weft-server/src/mds/ops/x.rs";
    let lib = "crates/weft-state/src/x.rs";
    let function = |lines: usize| {
        let inside = "    work();\n".repeat(lines - 2);
        format!("//! X: RFC 8881 §1.\nfn long() {{\n{inside}}}\n")
    };
    let none: [&str; 0] = [];
    assert_eq!(broken(lib, &function(70)), none);
    assert_eq!(broken(lib, &function(71)), [format!("function-lines {lib} long")]);
    assert_eq!(broken(op, &function(40)), none);
    assert_eq!(broken(op, &function(41)), [format!("handler-lines {op} long")]);
    let with = |line: &str| broken(lib, &format!("//! X.\n{line}\n"));
    assert_eq!(with("fn f(&self, a: u8, b: A<u8, u8>, c: (u8, u8), d: u8, e: u8) {}"), none);
    let six = "fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}";
    assert_eq!(with(six), [format!("parameters {lib} f")]);
    for bad in ["x.unwrap();", "// TODO", "// FIXME: later", "dbg!(x);", "todo!()"] {
        assert_eq!(with(bad).len(), 1, "{bad}");
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n    {bad}\n}}");
        assert_eq!(with(&tested).len(), usize::from(bad.starts_with("//")), "{bad}");
    }
    assert_eq!(with("let s = \"x.unwrap() } TODO\"; // not.unwrap()").len(), 0);
    assert_eq!(with("#[allow(clippy::x)]\nfn f() {}"), [format!("allow-reason {lib}")]);
    assert_eq!(with("#[allow(clippy::x, reason = \"why\")]\nfn f() {}"), none);
    assert_eq!(with("fn f() { unsafe { g() } }"), [format!("unsafe {lib}")]);
    assert_eq!(broken("crates/weft-io/src/x.rs", "//! X.\nfn f() { unsafe { g() } }\n"), none);
    assert_eq!(broken(lib, "fn f() {}\n"), [format!("module-doc {lib}")]);
    assert_eq!(broken(op, "//! X.\nfn f() {}\n"), [format!("rfc-citation {op}")]);
    let long = |lines: usize| format!("//! X.\n{}", "const A: u8 = 1;\n".repeat(lines - 1));
    assert_eq!(broken(lib, &long(800)), none);
    assert_eq!(broken(lib, &long(801)), [format!("file-lines {lib}")]);
}

/// Where a function ends: not with the pattern of a struct among its parameters, nor with an array
/// among its types.
#[test]
fn functions_end_where_their_blocks_do() {
    let text = "//! X.
fn taken_apart(Pair { a, b }: Pair) -> u8 {
    a + b
}
fn declared(of: [u8; 4]);
async fn in_lines(
    Pair { a, b }: Pair,
) {
    if a > b {
        work();
    }
}
";
    let source = Source::new("crates/x/src/x.rs".into(), text.into());
    let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.lines)).collect();
    let expected = [("taken_apart", 3), ("declared", 1), ("in_lines", 7)];
    assert_eq!(found, expected.map(|(name, lines)| (name.to_string(), lines)));
}
