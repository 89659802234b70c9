//! Programs that use a mount, as `/proc` tells of them.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Programs that are named; the others are counted.
const NAMED_MAX: usize = 3;

/// A program that uses a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    name: String,
    pid: u32,
    /// One of the files that it uses.
    path: PathBuf,
}

/// Finds the programs that use a mount: for root all of this machine, for others their own.
pub(super) fn users_of(dir: &Path) -> Vec<User> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut users: Vec<User> = pids.filter_map(|pid| user(pid, dir)).collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn user(pid: u32, dir: &Path) -> Option<User> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let path = open_file(&process, dir)
        .or_else(|| ["cwd", "root"].iter().find_map(|name| target(&process.join(name), dir)))
        .or_else(|| mapped_file(&process, dir))?;
    let name = fs::read_to_string(process.join("comm")).ok()?;
    Some(User { name: name.trim_end().to_owned(), pid, path })
}

/// The target of a link of `/proc`, if it is in the directory. The mount itself is not asked.
fn target(link: &Path, dir: &Path) -> Option<PathBuf> {
    fs::read_link(link).ok().filter(|target| target.starts_with(dir))
}

fn open_file(process: &Path, dir: &Path) -> Option<PathBuf> {
    let descriptors = fs::read_dir(process.join("fd")).ok()?;
    descriptors.flatten().find_map(|descriptor| target(&descriptor.path(), dir))
}

/// A file that the process has mapped, its program among them. The path is what comes last in a
/// line, and the only thing with a slash that comes first in it (proc_pid_maps(5)).
fn mapped_file(process: &Path, dir: &Path) -> Option<PathBuf> {
    let maps = fs::read(process.join("maps")).ok()?;
    let mut paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&line[at..])))
    });
    paths.find(|path| path.starts_with(dir)).map(Path::to_owned)
}

/// The programs in words.
pub(super) fn words(users: &[User]) -> String {
    let named = users.iter().take(NAMED_MAX);
    let mut words: Vec<String> = named
        .map(|User { name, pid, path }| format!("{name} ({pid}) uses {}", path.display()))
        .collect();
    if users.len() > NAMED_MAX {
        words.push(format!("and {} more", users.len() - NAMED_MAX));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process is found by an open file, not by files elsewhere.
    #[test]
    fn a_process_with_an_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let file = fs::File::create(at.join("f")).unwrap();
        let users = users_of(&at);
        let [User { pid, path, .. }] = &users[..] else { panic!("{users:?}") };
        assert_eq!((*pid, path), (std::process::id(), &at.join("f")));
        drop(file);
        assert_eq!(users_of(&at), []);
    }

    /// A few are named, and the others counted.
    #[test]
    fn how_users_are_told() {
        let user = |pid| User { name: "sh".into(), pid, path: "/m/f".into() };
        assert_eq!(words(&[user(1), user(2)]), "sh (1) uses /m/f, sh (2) uses /m/f");
        let many: Vec<User> = (1..=5).map(user).collect();
        assert!(words(&many).ends_with("sh (3) uses /m/f, and 2 more"));
    }
}
