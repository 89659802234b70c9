//! Paths to filehandles.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Component as Part, Path},
};

use weft_nfs::{
    Attrs, Bitmap, Component, FileHandle, FileType, NfsStat, OpArgs, OpNum, OpOk,
    ops::{GetattrArgs, LookupArgs, PutfhArgs},
};

use super::{
    client::{Client, STAT_ATTRS},
    error::{At, FsError},
};
use crate::{error::ClientError, limits};

/// A path with every symbolic link but perhaps the last replaced by what it says.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    /// Names from the root.
    pub(super) names: Vec<Component>,
    pub(super) fh: FileHandle,
    pub(super) attrs: Attrs,
}

/// A walk that ended early: how many names were found, and why it ended.
struct Stopped {
    found: usize,
    error: ClientError,
}

/// The names of a path. `.` is skipped, `..` takes the name before it away.
pub(super) fn names_of(path: &Path) -> Vec<Component> {
    let mut names = Vec::new();
    extend(&mut names, path);
    names
}

/// The names of the directories above, and the last one.
pub(super) fn split_last(path: &Path) -> Result<(Vec<Component>, Component), FsError> {
    let mut names = names_of(path);
    let last = names.pop().ok_or(ClientError::Invalid("the root has no name")).at(path)?;
    Ok((names, last))
}

fn extend(names: &mut Vec<Component>, path: &Path) {
    for part in path.components() {
        match part {
            Part::RootDir => names.clear(),
            Part::ParentDir => drop(names.pop()),
            Part::Normal(name) => names.push(Component(name.as_bytes().to_vec().into())),
            Part::CurDir | Part::Prefix(_) => {}
        }
    }
}

impl Client {
    /// Finds a file or directory. Links within the path are followed, a last one on demand.
    pub(super) async fn resolve(&self, path: &Path, follow: bool) -> Result<Resolved, FsError> {
        self.resolve_names(names_of(path), follow).await.at(path)
    }

    pub(super) async fn resolve_names(
        &self,
        names: Vec<Component>,
        follow: bool,
    ) -> Result<Resolved, ClientError> {
        self.resolve_asking(names, follow, STAT_ATTRS).await
    }

    /// The same, with the attributes that are asked for.
    pub(super) async fn resolve_asking(
        &self,
        mut names: Vec<Component>,
        follow: bool,
        request: Bitmap,
    ) -> Result<Resolved, ClientError> {
        for _ in 0..=limits::SYMLINKS_MAX {
            let link_at = match self.walk(&names, request).await {
                Ok((fh, attrs)) => {
                    if !follow || attrs.file_type != Some(FileType::LNK) {
                        return Ok(Resolved { names, fh, attrs });
                    }
                    names.len().saturating_sub(1)
                }
                Err(Stopped { found, error }) => match (error.status(), found.checked_sub(1)) {
                    (Some(NfsStat::SYMLINK | NfsStat::NOTDIR), Some(last)) => last,
                    _ => return Err(error),
                },
            };
            names = self.replace_link(names, link_at).await?;
        }
        Err(ClientError::SymlinkLoop)
    }

    /// The directory a path's last name is in, and that name.
    pub(super) async fn resolve_parent(
        &self,
        path: &Path,
    ) -> Result<(FileHandle, Component), FsError> {
        let (dirs, last) = split_last(path)?;
        let parent = self.resolve_names(dirs, true).await.at(path)?;
        Ok((parent.fh, last))
    }

    /// Runs operations on a directory, found by its names from the root. The names travel with
    /// the operations unless there is a link among them; the first operation must change nothing
    /// when it answers SYMLINK or NOTDIR. The results are those of the operations given.
    pub(super) async fn in_directory(
        &self,
        dirs: Vec<Component>,
        ops: Vec<OpArgs>,
    ) -> Result<Vec<OpOk>, ClientError> {
        if self.is_eager(&dirs) {
            let start = lookups(OpArgs::Putrootfh, &dirs);
            let done = self.run_after(start, ops.clone()).await;
            match done.as_ref().err().and_then(ClientError::status) {
                Some(NfsStat::SYMLINK | NfsStat::NOTDIR) => {}
                _ => return done,
            }
        }
        let dir = self.resolve_names(dirs, true).await?;
        self.run_after(vec![OpArgs::Putfh(PutfhArgs { object: dir.fh })], ops).await
    }

    async fn run_after(
        &self,
        mut start: Vec<OpArgs>,
        ops: Vec<OpArgs>,
    ) -> Result<Vec<OpOk>, ClientError> {
        let before = start.len();
        start.extend(ops);
        let mut done = self.nodes.compound_or_close(start.len(), start).await?;
        Ok(done.split_off(before.min(done.len())))
    }

    /// The names with the link at this place replaced by its target.
    async fn replace_link(
        &self,
        names: Vec<Component>,
        at: usize,
    ) -> Result<Vec<Component>, ClientError> {
        let (head, tail) = names.split_at(names.len().min(at + 1));
        let (fh, _) = self.walk(head, STAT_ATTRS).await.map_err(|s| s.error)?;
        let target = match self.nodes.readlink(&fh).await {
            Ok(target) => target,
            // It is no link but something else that is no directory.
            Err(ClientError::Nfs { status: NfsStat::INVAL | NfsStat::WRONG_TYPE, .. }) => {
                return Err(ClientError::Nfs { op: OpNum::LOOKUP, status: NfsStat::NOTDIR });
            }
            Err(e) => return Err(e),
        };
        let mut out = head.split_last().map_or(Vec::new(), |(_, dirs)| dirs.to_vec());
        extend(&mut out, Path::new(std::ffi::OsStr::from_bytes(&target)));
        out.extend_from_slice(tail);
        Ok(out)
    }

    /// LOOKUP after LOOKUP from the root, many to a COMPOUND.
    async fn walk(
        &self,
        names: &[Component],
        request: Bitmap,
    ) -> Result<(FileHandle, Attrs), Stopped> {
        let mut start = OpArgs::Putrootfh;
        let mut found = 0;
        let mut chunks = names.chunks(limits::LOOKUPS_PER_COMPOUND).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let mut ops = lookups(start, chunk);
            ops.push(OpArgs::Getfh);
            ops.push(OpArgs::Getattr(GetattrArgs { request }));
            let outcome = self.session().compound_outcome(ops).await;
            let outcome = outcome.map_err(|error| Stopped { found, error })?;
            if let Some(f) = &outcome.failed {
                found += outcome.done.len().saturating_sub(1);
                let error = ClientError::Nfs { op: f.op, status: f.failure.status };
                return Err(Stopped { found, error });
            }
            found += chunk.len();
            let mut done = outcome.done.into_iter().rev();
            let (Some(OpOk::Getattr(attrs)), Some(OpOk::Getfh(fh))) = (done.next(), done.next())
            else {
                let error = ClientError::unexpected(OpNum::LOOKUP);
                return Err(Stopped { found, error });
            };
            if chunks.peek().is_none() {
                return Ok((fh.object, *attrs.attrs));
            }
            start = OpArgs::Putfh(PutfhArgs { object: fh.object });
        }
    }
}

/// From one directory through others.
pub(super) fn lookups(start: OpArgs, names: &[Component]) -> Vec<OpArgs> {
    let mut ops = vec![start];
    ops.extend(names.iter().map(|n| OpArgs::Lookup(LookupArgs { name: n.clone() })));
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dots go, parents take a name away (but never the root), an absolute target starts over.
    #[test]
    fn names_of_paths() {
        let names = |p: &str| {
            let names = names_of(Path::new(p));
            names.iter().map(|n| String::from_utf8(n.0.to_vec()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names("/a/./b//c/"), ["a", "b", "c"]);
        assert_eq!(names("/a/../../b"), ["b"]);
        assert!(names("/").is_empty());
        let mut at = names_of(Path::new("/x/y"));
        extend(&mut at, Path::new("/z"));
        assert_eq!(at, names_of(Path::new("/z")));
    }
}
