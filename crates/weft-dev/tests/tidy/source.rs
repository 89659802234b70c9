//! A source file without what only looks like code: text in strings and comments is blanked, line
//! by line, and tests are known.

use std::path::Path;

/// One file.
pub struct Source {
    /// From the root of the repository, with slashes.
    pub path: String,
    /// As it is.
    pub lines: Vec<String>,
    /// Without strings, characters and comments.
    pub code: Vec<String>,
    /// Whether a line is part of a test module or of a file of tests.
    pub tested: Vec<bool>,
}

/// A function.
pub struct Function {
    /// Its name.
    pub name: String,
    /// Index of its first line: `fn`, after attributes and comments.
    pub first: usize,
    /// Lines up to its closing brace.
    pub lines: usize,
    /// Parameters, `self` left out.
    pub parameters: usize,
}

/// Every Rust source of our crates, those of the build left out.
pub fn all(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    collect(root, &root.join("crates"), &mut sources);
    mark_test_files(&mut sources);
    sources
}

/// Marks the files that are declared for tests only (`#[cfg(test)] mod x;`), and what is below
/// them.
pub fn mark_test_files(sources: &mut [Source]) {
    let declared: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    let is_declared = |path: &str| {
        declared.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|r| r == ".rs" || r.starts_with('/'))
        })
    };
    for source in sources.iter_mut().filter(|source| is_declared(&source.path)) {
        source.tested.fill(true);
    }
}

fn collect(root: &Path, dir: &Path, sources: &mut Vec<Source>) {
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            collect(root, &entry, sources);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            let path = entry.strip_prefix(root).expect("below the root").display().to_string();
            sources.push(Source::new(path, std::fs::read_to_string(&entry).expect("a source")));
        }
    }
}

/// Whether a line says that what follows is for tests: ours, or with a feature those of others.
fn is_for_tests(line: &str) -> bool {
    line.trim() == "#[cfg(test)]" || line.trim().starts_with("#[cfg(any(test, feature")
}

impl Source {
    /// Takes a source apart.
    pub fn new(path: String, text: String) -> Source {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let code: Vec<String> = blanked(&text).lines().map(String::from).collect();
        let all_tests = ["/tests/", "/examples/"].iter().any(|folder| path.contains(folder));
        let mut tested = vec![all_tests; lines.len()];
        for first in (0..code.len()).filter(|at| is_for_tests(&code[*at])) {
            let end = block_end(&code, first + 1);
            tested[first..=end].fill(true);
        }
        Source { path, lines, code, tested }
    }

    /// The paths, without `.rs`, of the modules that it declares for tests only.
    fn test_modules(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let below = match file.trim_end_matches(".rs") {
            "lib" | "main" | "mod" => folder.to_string(),
            stem => format!("{folder}/{stem}"),
        };
        let mut found = Vec::new();
        for at in (0..self.code.len()).filter(|at| is_for_tests(&self.code[*at])) {
            let line = |at: usize| self.lines.get(at).map_or("", |line| line.trim());
            let elsewhere = line(at + 1).strip_prefix("#[path = \"");
            if let Some(path) = elsewhere.and_then(|rest| rest.strip_suffix(".rs\"]")) {
                found.push(format!("{folder}/{path}"));
            } else if let Some((_, name)) = line(at + 1).split_once("mod ") {
                found.extend(name.strip_suffix(';').map(|name| format!("{below}/{name}")));
            }
        }
        found
    }

    /// Its functions, those inside others too.
    pub fn functions(&self) -> Vec<Function> {
        (0..self.code.len()).filter_map(|at| self.function(at)).collect()
    }

    fn function(&self, first: usize) -> Option<Function> {
        let words = ["pub ", "pub(crate) ", "pub(super) ", "const ", "async ", "unsafe "];
        let mut rest = self.code[first].trim_start();
        if let Some(of_module) = rest.strip_prefix("pub(in ") {
            rest = of_module.split_once(") ")?.1;
        }
        while let Some(less) = words.iter().find_map(|w| rest.strip_prefix(w)) {
            rest = less;
        }
        let rest = rest.strip_prefix("fn ")?;
        let name = rest.split(['(', '<']).next().unwrap_or_default().to_string();
        let end = block_end(&self.code, first);
        let parameters = parameters(&self.code[first..=end].join("\n"));
        Some(Function { name, first, lines: end - first + 1, parameters })
    }
}

/// The line where the block that begins at or after a line ends; of a declaration without one, the
/// line with its semicolon.
fn block_end(code: &[String], first: usize) -> usize {
    let (mut depth, mut round) = (0, 0);
    for (at, line) in code.iter().enumerate().skip(first) {
        for c in line.chars() {
            match c {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            // The braces of a pattern among the parameters are inside their parentheses.
            if matches!(c, '}' | ';') && depth == 0 && round == 0 {
                return at;
            }
        }
    }
    code.len().saturating_sub(1)
}

/// Counts what stands between the commas of a function's parentheses.
fn parameters(function: &str) -> usize {
    let name_end = function.find("fn ").map_or(0, |at| at + 3);
    let (mut depth, mut generic, mut found) = (0, 0, Vec::new());
    let mut before = ' ';
    for c in function.chars().skip(function[..name_end].chars().count()) {
        match c {
            '<' if depth > 0 || found.is_empty() => generic += 1,
            '>' if before != '-' && generic > 0 => generic -= 1,
            '(' | '[' => depth += 1,
            ')' | ']' if depth > 0 => depth -= 1,
            _ => {}
        }
        let opens = c == '(' && depth == 1 && generic == 0;
        match c {
            _ if opens && found.is_empty() => found.push(String::new()),
            ')' if depth == 0 && !found.is_empty() => break,
            ',' if depth == 1 && generic == 0 => found.push(String::new()),
            _ => found.last_mut().into_iter().for_each(|f| f.push(c)),
        }
        before = c;
    }
    let is_self = |p: &str| p.split(':').next().is_some_and(|p| p.trim().ends_with("self"));
    found.iter().filter(|p| !p.trim().is_empty() && !is_self(p)).count()
}

/// The text with the inside of comments, strings and characters as spaces.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment, string or character that begins here ends; `at` if none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let is = |from: usize, text: &str| {
        text.chars().enumerate().all(|(i, c)| chars.get(from + i) == Some(&c))
    };
    let after = |from: usize, text: &str| {
        (from..chars.len()).find(|i| is(*i, text)).map_or(chars.len(), |i| i + text.chars().count())
    };
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if is(at, "//") => (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len()),
        '/' if is(at, "/*") => after(at + 2, "*/"),
        'r' if !in_word && (is(at, "r\"") || is(at, "r#\"")) => {
            if is(at, "r\"") {
                after(at + 2, "\"")
            } else {
                after(at + 3, "\"#")
            }
        }
        '"' => quoted_end(chars, at + 1, '"'),
        '\'' if is(at + 1, "\\") || chars.get(at + 2) == Some(&'\'') => {
            quoted_end(chars, at + 1, '\'')
        }
        _ => at,
    }
}

fn quoted_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}
