//! The paths that a source names, its tests left out: those of `use`, and those inside the code.

use std::collections::BTreeSet;

use crate::source::Source;

/// A name that a `use` brings into a file.
pub struct Import {
    /// What it stands for, from the first segment on; `*` at the end for everything.
    pub path: Vec<String>,
    /// What it is called in the file.
    pub name: String,
    /// Whether other files may name it through this one: `pub use`.
    pub public: bool,
}

/// What a file names.
#[derive(Default)]
pub struct Paths {
    /// By `use`.
    pub imports: Vec<Import>,
    /// In the code, as `module::item`.
    pub inline: Vec<Vec<String>>,
    /// Every word of the code outside of `use`.
    pub words: BTreeSet<String>,
    /// What the file defines at any depth: types, functions, constants.
    pub defined: BTreeSet<String>,
}

impl Paths {
    /// Reads a source.
    pub fn of(source: &Source) -> Paths {
        let tokens = tokens(source);
        let mut paths = Paths::default();
        let mut at = 0;
        while at < tokens.len() {
            at = if is_import(&tokens, at) {
                let end = (at..tokens.len()).find(|i| tokens[*i] == ";").unwrap_or(tokens.len());
                let public = at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str());
                tree(&tokens[at + 1..end], &[], public, &mut paths.imports);
                end + 1
            } else {
                paths.take_code(&tokens, at)
            };
        }
        paths
    }

    /// Takes what begins at a token outside of `use`, and answers where it ends.
    fn take_code(&mut self, tokens: &[String], at: usize) -> usize {
        const DEFINES: &[&str] = &["struct", "enum", "fn", "trait", "type", "const", "static"];
        if !is_word(&tokens[at]) {
            return at + 1;
        }
        if at > 0 && DEFINES.contains(&tokens[at - 1].as_str()) {
            self.defined.insert(tokens[at].clone());
        }
        let mut path = vec![tokens[at].clone()];
        let mut end = at + 1;
        while tokens.get(end).is_some_and(|t| t == "::")
            && tokens.get(end + 1).is_some_and(|t| is_word(t))
        {
            path.push(tokens[end + 1].clone());
            end += 2;
        }
        self.words.extend(path.iter().cloned());
        if path.len() > 1 {
            self.inline.push(path);
        }
        end
    }
}

/// The words of the code that is not for tests, `::`, and every other character by itself.
fn tokens(source: &Source) -> Vec<String> {
    let code = source.code.iter().zip(&source.tested).filter(|(_, tested)| !**tested);
    let mut tokens: Vec<String> = Vec::new();
    for (line, _) in code {
        let mut joins = false;
        for c in line.chars() {
            let continues = tokens.last().is_some_and(|last| {
                (is_part_of_word(c) && is_word(last)) || (c == ':' && last == ":")
            });
            match tokens.last_mut() {
                Some(last) if joins && continues => last.push(c),
                _ if c.is_whitespace() => {}
                _ => tokens.push(c.to_string()),
            }
            joins = !c.is_whitespace();
        }
    }
    tokens
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_part_of_word)
}

/// A `use` of paths, not the one of a type (`impl Trait + use<'a>`).
fn is_import(tokens: &[String], at: usize) -> bool {
    tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<")
}

/// The leaves of a tree of paths.
fn tree(tokens: &[String], prefix: &[String], public: bool, found: &mut Vec<Import>) {
    for item in between_commas(tokens) {
        let group = item.iter().position(|t| t == "{");
        let ends = group.or_else(|| item.iter().position(|t| t == "as")).unwrap_or(item.len());
        let mut path = prefix.to_vec();
        path.extend(item[..ends].iter().filter(|t| *t != "::").cloned());
        if group.is_some() {
            tree(&item[ends + 1..item.len() - 1], &path, public, found);
            continue;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = item.get(ends + 1).or(path.last()).cloned().unwrap_or_default();
        found.push(Import { path, name, public });
    }
}

/// What stands between the commas that are in no braces.
fn between_commas(tokens: &[String]) -> Vec<&[String]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        depth += i32::from(token == "{") - i32::from(token == "}");
        depth == 0 && token == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}
