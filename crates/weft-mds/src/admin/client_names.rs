//! What clients are called, for people: the machine's name out of a `co_ownerid`.

/// What Linux writes before its machine's name (`nfs4_init_nonuniform_client_string`).
const LINUX: &str = "Linux NFSv4.";
/// What our own client writes before it.
const OURS: &str = "weft ";

/// The name of the machine that a `co_ownerid` is of, as far as one can tell; else all of it.
pub(crate) fn client_name(ownerid: &[u8]) -> String {
    let text = owner_text(ownerid);
    let named = text.strip_prefix(LINUX).and_then(|rest| rest.split_once(' ')).map(|(_, n)| n);
    if let Some(machine) = named {
        // A uniquifier stands before it.
        let machine = machine.rsplit('/').next().unwrap_or(machine);
        return machine.to_owned();
    }
    let ours = text.strip_prefix(OURS).and_then(|rest| rest.split(' ').next());
    ours.filter(|name| !name.is_empty()).map_or(text.clone(), str::to_owned)
}

/// A `co_ownerid` as text that harms no terminal.
pub(crate) fn owner_text(ownerid: &[u8]) -> String {
    String::from_utf8_lossy(ownerid).chars().flat_map(printable).collect()
}

fn printable(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control() || c == char::REPLACEMENT_CHARACTER;
    let (plain, escape) = if escaped { (None, Some(c.escape_default())) } else { (Some(c), None) };
    plain.into_iter().chain(escape.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners as clients write them, and the machine of each.
    #[test]
    fn machines_are_found() {
        for (owner, name) in [
            ("Linux NFSv4.2 kc12", "kc12"),
            ("Linux NFSv4.1 kc12.example.org", "kc12.example.org"),
            ("Linux NFSv4.2 0b2f7c1e-uniq/kc12", "kc12"),
            ("weft login3 4711 00c0ffee00c0ffee", "login3"),
            ("somebody else's", "somebody else's"),
            ("weft ", "weft "),
            ("Linux NFSv4.2", "Linux NFSv4.2"),
            ("", ""),
        ] {
            assert_eq!(client_name(owner.as_bytes()), name, "{owner}");
        }
        assert_eq!(owner_text(b"a\x1b[31m\xff"), "a\\u{1b}[31m\\u{fffd}");
    }
}
