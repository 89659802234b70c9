//! Names on a terminal: what could move the cursor, or be taken for several words, is quoted as a
//! shell reads it, so that it can be pasted back.

/// The name as a terminal may show it.
pub(super) fn quoted(name: &[u8]) -> String {
    let text = std::str::from_utf8(name).ok();
    if let Some(text) = text.filter(|t| !t.is_empty() && t.chars().all(is_plain)) {
        return text.to_owned();
    }
    if let Some(text) = text.filter(|t| !t.chars().any(|c| is_hidden(c) || c == '\'')) {
        return format!("'{text}'");
    }
    let mut out = String::from("$'");
    for chunk in name.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_escaped(&mut out, c));
        chunk.invalid().iter().for_each(|b| out.push_str(&format!("\\{b:03o}")));
    }
    out.push('\'');
    out
}

/// Text with names in it, as a terminal may show it; its own line breaks stay.
pub fn printable(text: &str) -> String {
    escaped(text, |c| is_hidden(c) && c != '\n')
}

/// The same on one line, whatever the names are.
pub fn one_line(text: &str) -> String {
    escaped(text, is_hidden)
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    out
}

/// Means nothing to a shell, and shows itself.
fn is_plain(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => true,
        '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%' | '/' | '^' | '=' | '~' | '#' => true,
        c => !c.is_ascii() && !is_hidden(c) && !c.is_whitespace(),
    }
}

/// Shows nothing, or changes what is shown.
fn is_hidden(c: char) -> bool {
    let invisible = matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || invisible
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\'' => out.push_str("\\'"),
        '\\' => out.push_str("\\\\"),
        c if is_hidden(c) => {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|b| out.push_str(&format!("\\{b:03o}")));
        }
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is plain stays so, the rest is one word of a shell's.
    #[test]
    fn names() {
        for (name, shown) in [
            (&b"plain-1.txt"[..], "plain-1.txt"),
            ("größe".as_bytes(), "größe"),
            (b"a b", "'a b'"),
            (b"$(x)", "'$(x)'"),
            (b"", "''"),
            (b"it's", r"$'it\'s'"),
            (b"a\nb", r"$'a\nb'"),
            (b"\x1b[31m", r"$'\033[31m'"),
            (b"\xff\\x", r"$'\377\\x'"),
            ("a\u{202e}b".as_bytes(), r"$'a\342\200\256b'"),
        ] {
            assert_eq!(quoted(name), shown);
        }
    }

    /// What is in a text for people moves no cursor; quotes and its own lines are left alone.
    #[test]
    fn texts() {
        let text = "/it's \\ a\u{1b}[2J:\n größe\u{202e}";
        assert_eq!(printable(text), "/it's \\ a\\033[2J:\n größe\\342\\200\\256");
        assert_eq!(one_line(text), "/it's \\ a\\033[2J:\\n größe\\342\\200\\256");
    }
}
