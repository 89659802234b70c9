//! Options as mount(8) and fstab(5) give them: `-o ro,patience=60`.

use std::{ffi::OsString, path::PathBuf};

/// Most seconds that an option may say.
const DAY_S: u64 = 86_400;

/// Options that say what is so anyway, or that are for mount(8) alone. Reading moves no times; the
/// mount knows neither devices nor set-id bits, whatever is asked for.
const WITHOUT_EFFECT: [&str; 25] = [
    "_netdev",
    "async",
    "auto",
    "atime",
    "comment",
    "defaults",
    "dev",
    "diratime",
    "exec",
    "group",
    "noatime",
    "noauto",
    "nodev",
    "nodiratime",
    "nofail",
    "nosuid",
    "nouser",
    "owner",
    "relatime",
    "rw",
    "strictatime",
    "suid",
    "user",
    "users",
    "uhelper",
];

/// Words of a command line that is in the form of mount(8), `weft SOURCE DIR -o OPTIONS`, as which
/// mount.fuse(8) starts it for the type `fuse.weft`, as those of `weft mount`.
pub(crate) fn from_mount(
    mut words: Vec<OsString>,
    is_command: impl Fn(&str) -> bool,
) -> Vec<OsString> {
    let has_options = words.get(3).is_some_and(|word| word == "-o");
    if has_options && !words[1].to_str().is_some_and(is_command) {
        words.insert(1, "mount".into());
    }
    words
}

/// Settings of `-o`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) read_only: bool,
    pub(super) no_exec: bool,
    pub(super) private: bool,
    pub(super) attributes_valid: Option<u64>,
    pub(super) patience: Option<u64>,
    pub(super) log: Option<PathBuf>,
}

/// Reads options.
///
/// # Errors
/// One is not known.
pub(super) fn parse(words: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&**word, None),
        };
        let seconds = || {
            let seconds = value.and_then(|value| value.parse().ok()).filter(|s| *s <= DAY_S);
            seconds.ok_or_else(|| format!("-o {word}: not a number of seconds, a day at most"))
        };
        match (name, value) {
            ("ro", None) => options.read_only = true,
            ("noexec", None) => options.no_exec = true,
            ("private", None) => options.private = true,
            // The default of those who may ask for it.
            ("allow_other", None) if rustix::process::geteuid().is_root() => {}
            ("attributes-valid", _) => options.attributes_valid = Some(seconds()?),
            ("patience", _) => options.patience = Some(seconds()?.max(1)),
            ("log", Some(file)) => options.log = Some(file.into()),
            _ if WITHOUT_EFFECT.contains(&name) || name.starts_with("x-") => {}
            _ => return Err(format!("-o {word}: not known to `weft mount`")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &str) -> Result<Options, String> {
        parse(&options.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    /// Options do what the long ones do; what fstab has for others does nothing; what is not known
    /// is refused.
    #[test]
    fn options_of_mount() {
        let none = parsed("rw,dev,suid,_netdev,x-systemd.automount,nofail");
        assert_eq!(none, Ok(Options::default()));
        let all = Options {
            read_only: true,
            no_exec: true,
            private: true,
            attributes_valid: Some(0),
            patience: Some(7),
            log: Some("/tmp/l".into()),
        };
        let said = "ro,noexec,private,patience=7,attributes-valid=0,log=/tmp/l";
        assert_eq!(parsed(said), Ok(all));
        for wrong in ["sync", "patience=x", "patience", "ro=1", "log", "patience=86401"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    /// The form of mount(8) is told from commands.
    #[test]
    fn the_form_of_mount() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let changed = |line| from_mount(words(line), |word| ["mount", "rm"].contains(&word));
        assert_eq!(changed("weft h:/ d -o ro"), words("weft mount h:/ d -o ro"));
        for line in ["weft mount h:/ d -o ro", "weft rm a -o", "weft h:/ d", "weft"] {
            assert_eq!(changed(line), words(line));
        }
    }
}
