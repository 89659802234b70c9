//! Tests of the rules themselves, on small sources made up for them.

use std::collections::BTreeSet;

use crate::{
    arrows, citations, rules,
    source::{self, Source},
    table::Table,
};

fn broken(path: &str, text: &str) -> Vec<String> {
    rules::broken(&Source::new(path.into(), text.into()))
}

/// Every rule finds what it is there for, on both sides of its limit.
#[test]
fn rules_find_what_they_are_there_for() {
    let op = "crates/weft-mds/src/ops/x.rs";
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
    let wide = |columns: usize| format!("// {}", "§".repeat(columns - 3));
    assert_eq!(with(&wide(100)), none);
    assert_eq!(with(&wide(101)), [format!("columns {lib}")]);
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

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let source = |(path, text): &(&str, &str)| Source::new((*path).into(), (*text).into());
    files.iter().map(source).collect()
}

fn arrows_of(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let short = |path: String| path.replace("crates/x/src/", "");
    let arrows = arrows::between_files(&sources(files));
    arrows.into_iter().map(|(from, to)| (short(from), short(to))).collect()
}

fn is_arrow(files: &[(&str, &str)], from: &str, to: &str) -> bool {
    arrows_of(files).contains(&(from.into(), to.into()))
}

/// A path leads to the file that defines its item, however it is written and whoever passes it on.
#[test]
fn arrows_follow_paths_to_where_items_are_defined() {
    let low = ("crates/x/src/low.rs", "pub struct Low;");
    let root = ("crates/x/src/lib.rs", "mod low;\npub mod a;");
    let parent = ("crates/x/src/a/mod.rs", "mod b;\nuse crate::low::Low as Deep;\npub use b::B;");
    for text in [
        "use crate::low::Low;",
        "use crate::{low::{self, Low}};",
        "use super::super::low::Low;",
        "use super::Deep;",
        "use crate::low;\nfn f() { low::Low }",
        "fn f(of: &crate::low::Low) {}",
        "use crate::low::*;",
    ] {
        let b = ("crates/x/src/a/b.rs", text);
        assert!(is_arrow(&[low, root, parent, b], "a/b.rs", "low.rs"), "{text}");
        assert!(!is_arrow(&[low, root, parent, b], "a/b.rs", "a/mod.rs"), "{text}");
    }
    for text in [
        "// crate::low::Low",
        "fn f() -> &str { \"crate::low::Low\" }",
        "#[cfg(test)]\nmod tests {\n    use crate::low::Low;\n}",
        "use weft_nfs::low::Low;",
        "use crate::low;",
    ] {
        let b = ("crates/x/src/a/b.rs", text);
        assert!(!is_arrow(&[low, root, parent, b], "a/b.rs", "low.rs"), "{text}");
    }
    let b = ("crates/x/src/a/b.rs", "pub struct B;\nfn f(of: super::C) {}");
    let user = ("crates/x/src/user.rs", "use crate::a::{B, C};");
    let passed_on = arrows_of(&[low, root, parent, b, user]);
    let expected = [("a/b.rs", "a/mod.rs"), ("a/mod.rs", "low.rs")];
    let expected = expected.into_iter().chain([("user.rs", "a/b.rs"), ("user.rs", "a/mod.rs")]);
    assert_eq!(passed_on, expected.map(|(f, t)| (f.into(), t.into())).collect::<Vec<_>>());
}

/// A file that says `pub use` names nothing by that, unless it uses the name too.
#[test]
fn passing_a_name_on_is_no_use_of_it() {
    let b = ("crates/x/src/b.rs", "pub struct B;");
    let only_passes = ("crates/x/src/lib.rs", "mod b;\npub use b::B;");
    assert!(!is_arrow(&[only_passes, b], "lib.rs", "b.rs"));
    let uses = ("crates/x/src/lib.rs", "mod b;\npub use b::B;\nfn f(of: B) {}");
    assert!(is_arrow(&[uses, b], "lib.rs", "b.rs"));
}

fn room_faults(rows: &str, files: &[(&str, &str)]) -> Vec<String> {
    let table = Table::parse(&format!("exceptions = []\ncrate = []\n{rows}"));
    let sources = sources(files);
    arrows::rooms(&table.rooms, &sources, &arrows::between_files(&sources))
}

/// A room names those it may and no other; a room in it is another one.
#[test]
fn rooms_name_only_what_they_may() {
    let files = [
        ("crates/x/src/mds/mod.rs", "pub struct Mds;"),
        ("crates/x/src/mds/files/mod.rs", "use crate::clock::now;\nuse crate::ds::Ds;"),
        ("crates/x/src/mds/files/more.rs", "use super::Files;\nfn f(of: crate::mds::Mds) {}"),
        ("crates/x/src/clock.rs", "pub fn now() {}"),
        ("crates/x/src/ds/mod.rs", "pub struct Ds;\nuse crate::mds::Mds;"),
    ];
    let row = |may_use: &str| {
        format!("[[room]]\npath = \"crates/x/src/mds/files\"\nmay_use = [{may_use}]\n")
    };
    let none: [&str; 0] = [];
    assert_eq!(room_faults("", &files), none);
    assert_eq!(room_faults(&row("'clock', 'ds', 'mds'"), &files), none);
    let inside = "crates/x/src/mds/files";
    let wrong = [
        format!("room {inside} uses crates/x/src/ds: {inside}/mod.rs crates/x/src/ds/mod.rs"),
        format!("room {inside} uses crates/x/src/mds: {inside}/more.rs crates/x/src/mds/mod.rs"),
    ];
    assert_eq!(room_faults(&row("'clock'"), &files), wrong);
    let gone = row("'clock', 'ds', 'mds', 'admin'");
    assert_eq!(room_faults(&gone, &files), ["room crates/x/src/admin is nothing"]);
    let never = format!("{}never = ['Ds', 'Sessions']\n", row("'clock', 'ds', 'mds'"));
    assert_eq!(room_faults(&never, &files), [format!("room {inside} says Ds: {inside}/mod.rs")]);
}

/// Files that use each other in a circle are told, whole; one that only leads to it is not part.
#[test]
fn circles_are_found() {
    let files = [
        ("crates/x/src/a.rs", "use crate::b::B;"),
        ("crates/x/src/b.rs", "use crate::c::C;"),
        ("crates/x/src/c.rs", "fn f(of: crate::a::A) {}"),
        ("crates/x/src/user.rs", "use crate::a::A;"),
    ];
    let faults = |rows: &str, files: &[(&str, &str)]| {
        let table = Table::parse(&format!("exceptions = []\ncrate = []\n{rows}"));
        arrows::circles(&table.circles, &arrows::between_files(&sources(files)))
    };
    let whole = "circle crates/x/src/a.rs crates/x/src/b.rs crates/x/src/c.rs";
    assert_eq!(faults("", &files), [whole]);
    let row = |within: &str| format!("[[circle]]\nwithin = [{within}]\nbecause = 'why'\n");
    let none: [&str; 0] = [];
    assert_eq!(faults(&row("'crates/x/src'"), &files), none);
    assert_eq!(faults(&row("'crates/x/src/a', 'crates/x/src/b'"), &files).len(), 2);
    assert_eq!(faults("", &files[1..]), none);
    let gone = "circle within [\"crates/x/src\"] is gone";
    assert_eq!(faults(&row("'crates/x/src'"), &files[1..]), [gone]);
}

/// A crate uses exactly what its row says, its tests too.
#[test]
fn crates_use_what_their_rows_say() {
    let manifest = "[dependencies]\nbytes.workspace = true\nweft-xdr.workspace = true\n\
        [dev-dependencies]\nweft-dev = { path = \"../weft-dev\" }\n";
    let faults = |row: &str| {
        let table = Table::parse(&format!("exceptions = []\n[[crate]]\nname = \"weft-x\"\n{row}"));
        arrows::of_crate(&table.crates[0], manifest)
    };
    let none: [&str; 0] = [];
    assert_eq!(faults("uses = ['weft-xdr']\ntests_use = ['weft-dev']"), none);
    let wrong = ["arrow weft-x weft-xdr", "arrow weft-x weft-dev (tests)"];
    assert_eq!(faults(""), wrong);
    let more = faults("uses = ['weft-xdr', 'weft-nfs']\ntests_use = ['weft-dev']");
    assert_eq!(more, ["arrow weft-x weft-nfs is in the table only"]);
}

/// A file is for tests if it is declared so, not by its name.
#[test]
fn files_of_tests_are_known_by_their_declaration() {
    let mut all = sources(&[
        ("crates/x/src/lib.rs", "#[cfg(test)]\nmod page;\n#[cfg(test)]\nmod model;\nmod a;\n"),
        ("crates/x/src/page.rs", "fn f() {}"),
        ("crates/x/src/model/mod.rs", "mod parts;"),
        ("crates/x/src/model/parts.rs", "fn f() {}"),
        ("crates/x/src/a.rs", "fn f() {}\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n"),
        ("crates/x/src/a_tests.rs", "fn f() {}"),
        ("crates/x/src/a/page.rs", "fn f() {}"),
    ]);
    source::mark_test_files(&mut all);
    let tested = all.iter().filter(|s| s.tested.iter().all(|t| *t)).map(|s| s.path.as_str());
    let expected = ["page.rs", "model/mod.rs", "model/parts.rs", "a_tests.rs"];
    let expected: BTreeSet<String> = expected.map(|f| format!("crates/x/src/{f}")).into();
    assert_eq!(tested.map(String::from).collect::<BTreeSet<_>>(), expected);
}

/// What is cited is explained, and cited in one form, over the end of a line too.
#[test]
fn citations_lead_somewhere() {
    let page = "# X\n\n### D5. A title\n### D13. Another\n## P3. A paper\n| P3.2 | a row |\n";
    let explained = citations::explained(page);
    let faults = |text: &str| {
        let source = Source::new("x.rs".into(), text.into());
        citations::of_source(&source, &explained)
    };
    let none: [&str; 0] = [];
    for right in [
        "//! As it is (design D5, D13; P3.2), says P3 §5.",
        "//! As it is (design\n//! D5): P3's table.",
        "const D7: u8 = P9;",
        "let s = \"D7 // P9.9\";",
    ] {
        assert_eq!(faults(right), none, "{right}");
    }
    let unknown = |number: &str| format!("citation x.rs {number} is nowhere explained");
    assert_eq!(faults("/// (design D7)"), [unknown("D7")]);
    assert_eq!(faults("f(); // P3.7: why"), [unknown("P3.7")]);
    assert_eq!(faults("//! As it is (D5).").len(), 1);
    assert_eq!(faults("//! As it is (`P3.2`).").len(), 1);
    assert_eq!(citations::of_text("x.md", "Design D13, D14", &explained).len(), 1);
}
