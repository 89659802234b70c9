//! The rules.

use crate::source::Source;

/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a function of an operation.
const HANDLER_LINES_MAX: usize = 40;
/// Lines of a file, those of its tests left out.
const FILE_LINES_MAX: usize = 800;
/// Characters of a line.
const COLUMNS_MAX: usize = 100;
/// Parameters of a function, `self` left out.
const PARAMETERS_MAX: usize = 5;

/// Where the operations are.
const HANDLERS: &[&str] = &[
    "crates/weft-mds/src/ops/",
    "crates/weft-ds/src/data.rs",
    "crates/weft-server/src/compound/session_ops.rs",
];

/// What is not left in code that is not for tests.
const BANNED: &[&str] = &[".unwrap()", "dbg!(", "todo!(", "unimplemented!("];
/// What is not left in comments.
const NOTES: &[&str] = &["TODO", "FIXME"];

/// The rules that a file breaks, with what breaks them.
pub fn broken(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut found = sizes(source);
    let mut in_code = |rule: &str, what: bool| {
        if what {
            found.push(format!("{rule} {path}"));
        }
    };
    let code =
        |bad: &str| source.code.iter().zip(&source.tested).any(|(l, t)| !t && l.contains(bad));
    let text = |bad: &str| source.lines.iter().any(|l| l.contains(bad));
    for bad in BANNED {
        in_code(&format!("banned({bad})"), code(bad));
    }
    let tidy = path.starts_with("crates/weft-dev/tests/tidy");
    for bad in NOTES {
        let noted = source.lines.iter().zip(&source.code).any(|(l, c)| {
            l.split_once("//").is_some_and(|(_, note)| note.contains(bad))
                && !c.contains("//")
                && !l.contains('"')
        });
        in_code(&format!("note({bad})"), noted && !tidy);
    }
    let first = source.lines.first().is_some_and(|l| l.starts_with("//!") || l.starts_with("#!"));
    in_code("module-doc", !first);
    let is_op = path.starts_with(HANDLERS[0]) && !path.ends_with("/mod.rs");
    in_code("rfc-citation", is_op && !text("RFC "));
    let words =
        |l: &String| l.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe");
    in_code("unsafe", !path.starts_with("crates/weft-io/") && source.code.iter().any(words));
    in_code("allow-reason", allows_without_reason(source));
    in_code("columns", source.lines.iter().any(|l| l.chars().count() > COLUMNS_MAX));
    found
}

fn sizes(source: &Source) -> Vec<String> {
    let path = &source.path;
    let handler = HANDLERS.iter().any(|h| path.starts_with(h));
    let mut found = Vec::new();
    for f in source.functions().iter().filter(|f| !source.tested[f.first]) {
        if handler && f.lines > HANDLER_LINES_MAX {
            found.push(format!("handler-lines {path} {}", f.name));
        } else if f.lines > FUNCTION_LINES_MAX {
            found.push(format!("function-lines {path} {}", f.name));
        }
        if f.parameters > PARAMETERS_MAX {
            found.push(format!("parameters {path} {}", f.name));
        }
    }
    let own = source.tested.iter().filter(|t| !**t).count();
    if own > FILE_LINES_MAX {
        found.push(format!("file-lines {path}"));
    }
    found
}

/// An attribute that silences a lint says why.
fn allows_without_reason(source: &Source) -> bool {
    let begins = |line: &String| {
        ["#[allow(", "#![allow(", "#[expect(", "#![expect("].iter().any(|a| line.contains(a))
    };
    let starts = (0..source.code.len()).filter(|at| begins(&source.code[*at]));
    starts.into_iter().any(|at| {
        let attribute = source.code[at..].iter().take_while(|l| !l.trim().is_empty());
        let until = attribute.take_while(|l| !l.contains(")]")).count();
        let end = (at + until).min(source.code.len() - 1);
        !source.code[at..=end].iter().any(|l| l.contains("reason ="))
    })
}
