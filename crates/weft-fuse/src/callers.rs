//! In whose name a request is made.
//!
//! The kernel tells a caller's user and group. The other groups are the thread's own, which the
//! process table knows. They are looked up for every request that has a caller: whoever gives up a
//! group has given it up at once.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use weft_client::rpc::Credential;

/// What the process table says of a thread, in bytes, if it is in few groups.
const STATUS_BYTES: usize = 4096;
/// Threads whose entries in the process table are kept open.
const OPEN_MAX: usize = 32;

/// The credentials of callers.
pub struct Callers {
    /// Everybody's: a mount of a user's own.
    only: Option<Credential>,
    threads: Threads,
}

impl Callers {
    /// Each caller is himself.
    pub fn each() -> Callers {
        Callers { only: None, threads: Threads::default() }
    }

    /// Every caller is this one.
    pub fn only(credential: Credential) -> Callers {
        Callers { only: Some(credential), threads: Threads::default() }
    }

    /// In whose name a request is made.
    pub fn credential(&self, request: &fuser::Request) -> Credential {
        match &self.only {
            Some(only) => only.clone(),
            None => {
                let groups = self.threads.groups(request.pid());
                Credential::of_user(request.uid(), request.gid(), &groups)
            }
        }
    }
}

/// Entries of the process table. One that is open stays that of its thread: when the thread is gone
/// it cannot be read, whoever has the number then.
#[derive(Default)]
struct Threads(Mutex<VecDeque<(u32, Status)>>);

/// One entry. It is read by one at a time: who reads it in two pieces wants both of one text.
type Status = Arc<Mutex<File>>;

impl Threads {
    /// A thread's supplementary groups; none of one that is gone, or of a namespace that we do not
    /// see.
    fn groups(&self, pid: u32) -> Vec<u32> {
        if let Some(groups) = self.kept(pid).and_then(|kept| groups_in(&*locked(&kept)).ok()) {
            return groups;
        }
        let Ok(status) = File::open(format!("/proc/{pid}/status")) else { return Vec::new() };
        let groups = groups_in(&status).unwrap_or_default();
        let mut open = locked(&self.0);
        open.retain(|(of, _)| *of != pid);
        open.truncate(OPEN_MAX - 1);
        open.push_front((pid, Arc::new(Mutex::new(status))));
        groups
    }

    /// One that is open; what is not asked for goes first.
    fn kept(&self, pid: u32) -> Option<Status> {
        let mut open = locked(&self.0);
        let at = open.iter().position(|(of, _)| *of == pid)?;
        open.swap(0, at);
        open.front().map(|(_, status)| status.clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The groups in what the process table says of a thread. Each read has the kernel write that anew,
/// so it is read as far as that line, and in one piece as a rule.
fn groups_in(status: &impl FileExt) -> io::Result<Vec<u32>> {
    let mut said = Vec::new();
    let mut piece = [0; STATUS_BYTES];
    loop {
        let count = status.read_at(&mut piece, said.len() as u64)?;
        said.extend_from_slice(piece.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&said);
        let mut lines = text.split_inclusive('\n');
        let line = lines.find_map(|line| line.strip_prefix("Groups:"));
        if let Some(line) = line.filter(|line| count == 0 || line.ends_with('\n')) {
            return Ok(line.split_whitespace().filter_map(|group| group.parse().ok()).collect());
        }
        if count == 0 {
            return Ok(Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A status that is told in pieces.
    struct Pieces(Vec<u8>, usize);

    impl FileExt for Pieces {
        fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(to.len()).min(self.1);
            to[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Groups are those that the process table tells, in however many pieces it does.
    #[test]
    fn groups_are_read() {
        let many: Vec<u32> = (0..9999).collect();
        let words = many.iter().map(|group| format!("{group} ")).collect::<String>();
        let told: [(&str, &[u32]); 5] = [
            ("Name:\tx\nGid:\t5\t5\nGroups:\t4 24 1000 \nNgid: 0", &[4, 24, 1000]),
            ("Groups:\t4 24", &[4, 24]),
            ("Groups:\t\n", &[]),
            ("Name:\tx\n", &[]),
            (&format!("Groups:\t{words}\nNgid: 0"), &many),
        ];
        for (status, groups) in told {
            for piece in [7, 4096, usize::MAX] {
                let status = Pieces(status.as_bytes().to_vec(), piece);
                assert_eq!(groups_in(&status).unwrap(), groups);
            }
        }
    }

    /// Each thread has its own, also if it has the number of one that is gone, and only some
    /// entries are kept.
    #[test]
    fn threads_have_their_own() {
        let threads = Threads::default();
        let own: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(|g| g.as_raw()).collect();
        for _ in 0..2 {
            assert_eq!(threads.groups(std::process::id()), own);
        }
        assert_eq!(locked(&threads.0).len(), 1);
        for _ in 0..OPEN_MAX {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            assert_eq!(threads.groups(child.id()), own);
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(threads.groups(child.id()).is_empty(), "it is gone");
        }
        assert_eq!(locked(&threads.0).len(), OPEN_MAX);
        let (_, gone) = locked(&threads.0)[0].clone();
        locked(&threads.0).push_front((std::process::id(), gone));
        assert_eq!(threads.groups(std::process::id()), own, "the number is another's now");
    }
}
