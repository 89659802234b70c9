//! What comments and documents cite of our own pages: "design D5" is a heading of
//! `docs/decisions.md`; "P3.2" is a row, and "P3" a heading, of `docs/papers.md`.

use std::{collections::BTreeSet, path::Path};

use crate::source::Source;

/// Where the numbers are explained.
pub const PAGES: &[&str] = &["docs/decisions.md", "docs/papers.md"];

/// The numbers that a page explains, by heading or by the first cell of a row.
pub fn explained(page: &str) -> BTreeSet<String> {
    let number = |line: &str| {
        let begins = ["## ", "### ", "| "].iter().find_map(|mark| line.strip_prefix(mark))?;
        let word = begins.split_whitespace().next()?.trim_end_matches('.');
        is_number(word).then(|| word.to_string())
    };
    page.lines().filter_map(number).collect()
}

/// The citations in the comments of a source that lead nowhere, or are written in another form.
pub fn of_source(source: &Source, explained: &BTreeSet<String>) -> Vec<String> {
    let comments = source.lines.iter().zip(&source.code).map(|(line, code)| {
        let at = line.find("//").filter(|at| code.get(*at..).is_none_or(|c| c.trim().is_empty()));
        at.map_or("", |at| line[at..].trim_start_matches(['/', '!']))
    });
    of_text(&source.path, &comments.collect::<Vec<_>>().join("\n"), explained)
}

/// The same of a page.
pub fn of_text(path: &str, text: &str, explained: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for written in text.split_whitespace() {
        let word = written.trim_matches(|c: char| !c.is_alphanumeric() && c != '`');
        let number = word.trim_matches('`');
        let number = number.strip_suffix("'s").unwrap_or(number);
        if is_number(number) {
            let of_design = before.trim_start_matches(['(', '"']).eq_ignore_ascii_case("design")
                || is_number(before.trim_end_matches(','));
            if !explained.contains(number) {
                found.push(format!("citation {path} {number} is nowhere explained"));
            } else if word.contains('`') || (number.starts_with('D') && !of_design) {
                found.push(format!("citation {path} {number}: write \"design D5\" or \"P3.2\""));
            }
        }
        before = written;
    }
    found
}

/// As in design D5, P3 or P3.2.
fn is_number(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match (word.strip_prefix('D'), word.strip_prefix('P')) {
        (Some(decision), _) => digits(decision),
        (_, Some(row)) => row.split('.').count() <= 2 && row.split('.').all(digits),
        _ => false,
    }
}

/// The citations of all sources and pages.
pub fn broken(root: &Path, sources: &[Source]) -> Vec<String> {
    let read = |page: &Path| std::fs::read_to_string(page).expect("a page");
    let explained = PAGES.iter().flat_map(|page| explained(&read(&root.join(page)))).collect();
    let mut found: Vec<String> = sources.iter().flat_map(|s| of_source(s, &explained)).collect();
    for folder in ["", "docs", "docs/adr"].map(|folder| root.join(folder)) {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let page = entry.expect("an entry").path();
            let path = page.strip_prefix(root).expect("below the root").display().to_string();
            let is_page = page.extension().is_some_and(|e| e == "md");
            if is_page && !PAGES.contains(&path.as_str()) {
                found.extend(of_text(&path, &read(&page), &explained));
            }
        }
    }
    found
}
