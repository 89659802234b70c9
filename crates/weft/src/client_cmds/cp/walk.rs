//! The walk through a tree, and the files that are copied side by side while it goes on.
//!
//! Of each directory on the way down one page of entries is in memory, of the files that are being
//! copied a bounded number: neither width nor number of files counts.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    sync::Semaphore,
    task::{JoinError, JoinSet},
};
use weft_client::fs::Naming;

use super::{
    content::{self, Failure, Item},
    facts::{Facts, Kind},
    folder::Folder,
    guard,
    how::How,
    local,
    place::{Listing, Place},
    report::Report,
    spot::Spot,
    verify,
};
use crate::client_cmds::connect::means_directory;

/// Files under way at a time: enough for a server to make many durable at once.
const AT_A_TIME: usize = 64;
/// Those of them that are larger than [`LARGE_BYTES`]: each may fill all data servers.
const LARGE_AT_A_TIME: usize = 4;
/// What is larger is copied by many requests at a time.
const LARGE_BYTES: u64 = 1 << 20;
/// Directories above one another: more than any path that a system takes can name.
const DEPTH_MAX: usize = 1024;

/// One copy: where from, where to, how, and how far.
pub(super) struct Copy {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) how: How,
    pub(super) report: Arc<Report>,
    large: Semaphore,
}

/// A directory of the copy. It is whole when nobody has it any more.
struct Dir {
    path: PathBuf,
    /// On this machine.
    folder: Option<Arc<Folder>>,
    /// What it gets then, if it is to get anything.
    facts: Option<Facts>,
    above: Option<Arc<Dir>>,
}

/// A directory that the walk is in.
struct Level {
    entries: Listing,
    from: PathBuf,
    /// Of the source, on this machine.
    folder: Option<Arc<Folder>>,
    dir: Arc<Dir>,
    /// How the names in it are used.
    naming: Naming,
}

/// Something found.
struct Found {
    from: Spot,
    to: Spot,
    facts: Facts,
    naming: Naming,
}

impl Copy {
    pub(super) fn new((from, to): (Place, Place), how: How, report: Arc<Report>) -> Arc<Copy> {
        let large = Semaphore::new(LARGE_AT_A_TIME);
        Arc::new(Copy { from, to, how, report, large })
    }

    /// Copies what has a name that was given.
    ///
    /// # Errors
    /// Why it itself was not copied; what is below a directory is told to the report.
    pub(super) async fn run(
        self: Arc<Copy>,
        from: &Path,
        (to, naming): (Spot, Naming),
    ) -> Result<(), String> {
        let follow = self.how.follows_given || means_directory(from);
        let spot = match self.from {
            Place::Local if !follow => local::unfollowed(from),
            _ => Spot::given(from),
        };
        let facts = self.from.look(&spot, follow).await?;
        let facts = facts.ok_or_else(|| {
            format!("{}: no such file or directory{}", self.from.show(from), hint(from))
        })?;
        guard::check((&self.from, &facts), from, (&self.to, &to.path)).await?;
        let found = Found { from: spot, to, facts, naming };
        match found.facts.kind {
            Kind::Dir if self.how.recursive => self.tree(found).await,
            Kind::Dir => {
                let (path, name) = (self.from.show(from), self.how.command);
                Err(format!("{path}: is a directory ({name} -r copies it)"))
            }
            _ => {
                self.report.found(found.facts.size);
                self.report.found_all();
                match self.one(&found).await {
                    Ok(()) => Ok(()),
                    Err(failure) => Err(failure.why),
                }
            }
        }
    }

    /// Copies a directory with everything below.
    async fn tree(self: Arc<Copy>, top: Found) -> Result<(), String> {
        let mut tasks = JoinSet::new();
        let mut levels = vec![self.enter(&top, None).await?];
        while let Some(level) = levels.last_mut() {
            if self.report.over().is_some() {
                break;
            }
            let found = match level.entries.next().await {
                Ok(Some((name, facts))) => Found {
                    from: Spot::below(&level.from, level.folder.as_ref(), &name),
                    to: Spot::below(&level.dir.path, level.dir.folder.as_ref(), &name),
                    facts,
                    naming: level.naming,
                },
                end => {
                    end.err().iter().for_each(|why| self.report.failed(why));
                    if let Some(level) = levels.pop() {
                        self.leave(level.dir).await;
                    }
                    continue;
                }
            };
            let dir = level.dir.clone();
            if found.facts.kind == Kind::Dir {
                let entered = match levels.len() >= DEPTH_MAX {
                    true => Err(format!("{}: too deep", self.from.show(&found.from.path))),
                    false => self.enter(&found, Some(dir)).await,
                };
                match entered {
                    Ok(level) => levels.push(level),
                    Err(why) => self.report.failed(&why),
                }
                continue;
            }
            self.report.found(found.facts.size);
            if tasks.len() >= AT_A_TIME {
                self.joined(tasks.join_next().await);
            }
            tasks.spawn(self.clone().one_below(found, dir));
        }
        self.report.found_all();
        while self.joined(tasks.join_next().await) {}
        Ok(())
    }

    /// The task of a file has ended, which tells of what fails itself; whether there was one.
    fn joined(&self, ended: Option<Result<(), JoinError>>) -> bool {
        if let Some(Err(e)) = &ended {
            self.report.failed(&format!("a file was not copied: {e}"));
        }
        ended.is_some()
    }

    /// Makes a directory of the copy, and begins to list its source.
    async fn enter(&self, found: &Found, above: Option<Arc<Dir>>) -> Result<Level, String> {
        let opened = self.from.list(&found.from).await?;
        let of_source = opened.facts.as_ref().unwrap_or(&found.facts);
        let mode = of_source.mode(self.how.preserve);
        let (folder, is_new) = self.to.make_dir(&found.to, (mode, found.naming)).await?;
        // Such as is not ours to write in, it only becomes when it is whole.
        let closes = is_new && mode & 0o700 != 0o700;
        let keeps = self.how.preserve || closes;
        let facts = keeps.then(|| of_source.clone());
        Ok(Level {
            entries: opened.entries,
            from: found.from.path.clone(),
            folder: opened.folder,
            dir: Arc::new(Dir { path: found.to.path.clone(), folder, facts, above }),
            naming: if is_new { Naming::New } else { Naming::Listed },
        })
    }

    /// One user of a directory less. The last one gives it what it gets when it is whole.
    async fn leave(&self, dir: Arc<Dir>) {
        let mut next = Some(dir);
        while let Some(dir) = next.take().and_then(Arc::into_inner) {
            if let Some(facts) = &dir.facts {
                let at = (dir.path.as_path(), dir.folder.as_deref());
                if let Err(why) = self.to.finish(at, facts, self.how.preserve).await {
                    self.report.failed(&why);
                }
            }
            next = dir.above;
        }
    }

    async fn one_below(self: Arc<Copy>, found: Found, dir: Arc<Dir>) {
        match self.one(&found).await {
            Err(failure) if failure.is_last => self.report.end(failure.why),
            Err(failure) => self.report.failed(&failure.why),
            Ok(()) => {}
        }
        self.leave(dir).await;
    }

    /// Copies what is no directory.
    async fn one(&self, found: &Found) -> Result<(), Failure> {
        if let Some(why) = self.report.over() {
            return Err(Failure::last(why.clone()));
        }
        match found.facts.kind {
            Kind::Link => {
                let says = self.from.read_link(&found.from).await?;
                self.to.make_link(&says, &found.to).await?;
                if self.how.verify && self.to.read_link(&found.to).await? != says {
                    let path = self.to.show(&found.to.path);
                    return Err(format!("{path}: the link differs (copy it again)").into());
                }
                self.name(found, "");
            }
            Kind::File => self.file(found).await?,
            Kind::Special(what) => {
                let path = self.from.show(&found.from.path);
                return Err(format!("{path}: is {what}, not a regular file: not copied").into());
            }
            Kind::Dir => {
                return Err(format!("{}: is a directory", self.from.show(&found.from.path)).into());
            }
        }
        self.report.done();
        Ok(())
    }

    async fn file(&self, found: &Found) -> Result<(), Failure> {
        let is_done = self.how.resume
            && found.naming != Naming::New
            && self
                .to
                .look(&found.to, found.naming == Naming::Given)
                .await?
                .is_some_and(|copy| found.facts.is_as(&copy));
        let _turn = match found.facts.size > LARGE_BYTES {
            true => self.large.acquire().await.ok(),
            false => None,
        };
        let progress = self.report.progress();
        let mut what = " (is there already)".to_owned();
        if is_done {
            progress(found.facts.size);
        } else {
            let item = Item {
                from: &found.from,
                to: &found.to,
                facts: &found.facts,
                naming: found.naming,
            };
            let copied = content::copy((&self.from, &self.to), &item, &self.how, progress).await?;
            what = copied.words();
        }
        if self.how.verify {
            verify::compare((&self.from, &found.from), (&self.to, &found.to)).await?;
        }
        self.name(found, &what);
        Ok(())
    }

    /// Says of a file what was done, if that is wanted.
    fn name(&self, found: &Found, what: &str) {
        if self.how.verbose {
            let (from, to) = (self.from.show(&found.from.path), self.to.show(&found.to.path));
            self.report.say(&format!("{from} -> {to}{what}"));
        }
    }
}

/// Who wrote a pattern in quotes is told why nothing fits it.
fn hint(path: &Path) -> &'static str {
    use std::os::unix::ffi::OsStrExt;
    match path.as_os_str().as_bytes().iter().any(|b| matches!(b, b'*' | b'?')) {
        true => " (patterns of local files are expanded by the shell, without quotes)",
        false => "",
    }
}
