//! `weft backup`: a volume in one file, while it serves or while it is stopped.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use clap::Args;
use weft_io::{LocalDir, durable};
use weft_server::{clock::Clock, identity::hex};
use weft_store::{
    types::Timestamp,
    volume::{BackupError, BackupHeader, BackupReader, BackupSummary, Volume},
};

use crate::{
    admin::AdminArgs,
    fsck::open_volume,
    outcome::{Outcome, OutputError},
    utc::utc,
};

/// What is added to the name of a backup that is not whole yet.
const DRAFT_SUFFIX: &str = ".partial";
/// Mode of a draft, and of the backup.
const DRAFT_MODE: u32 = 0o600;
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// What can be done where no server answers.
const IF_STOPPED: &str = "; of a stopped metadata server, `weft backup FILE --mds DIR` makes a \
                          backup from its directory";

/// Options of `weft backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The file to make; there must be none of that name.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    admin: AdminArgs,
    /// Data directory of a metadata server that is stopped.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "dir", "config"])]
    mds: Option<PathBuf>,
}

/// Writes the backup, and says what it is of.
pub fn run(args: &BackupArgs) -> Outcome {
    let mut draft = Draft::begin(&args.file)?;
    let (header, summary) = match &args.mds {
        Some(mds) => stopped(&open_volume(mds)?, &mut draft)?,
        None => serving(args, &mut draft)?,
    };
    draft.finish()?;
    let uuid = hex(&header.identity()?.uuid);
    let (lsn, time) = (header.lsn.0, utc(header.time.seconds));
    let BackupSummary { records, inodes, bytes } = summary;
    let told = writeln!(
        io::stdout(),
        "{}: volume {uuid} as of mutation {lsn}, {time}: {inodes} inodes, {records} records, \
         {bytes} bytes",
        args.file.display()
    );
    Ok(told.map_err(OutputError::from)?)
}

/// Copies a volume that no server has open.
fn stopped(volume: &Volume, draft: &mut Draft) -> Outcome<(BackupHeader, BackupSummary)> {
    let (seconds, nanos) = Clock::default().wall();
    let backup = volume.backup(Timestamp { seconds, nanos })?;
    let header = backup.header().clone();
    let summary = backup.write(&mut draft.file).map_err(|e| draft.failed(&e))?;
    Ok((header, summary))
}

/// Takes a backup from the server, and looks at every byte of it.
fn serving(args: &BackupArgs, draft: &mut Draft) -> Outcome<(BackupHeader, BackupSummary)> {
    let (place, answer) = args.admin.stream("/backup", IF_STOPPED)?;
    let (mut failed, target) = (None, draft.target.clone());
    let tee = Tee { from: answer, to: &mut draft.file, failed: &mut failed };
    let taken = BackupReader::start(tee).and_then(|mut reader| {
        while reader.next_block()?.is_some() {}
        Ok((reader.header().clone(), reader.summary()))
    });
    match (taken, failed) {
        (_, Some(e)) => Err(draft.failed(&BackupError::Output(e)).into()),
        (Err(e), None) => Err(format!(
            "{}: no backup was made: what came from the server at {place} is not whole ({e}); \
             its log says why. Try again",
            target.display()
        )
        .into()),
        (Ok(whole), None) => Ok(whole),
    }
}

/// What is read is written as well.
struct Tee<'a, R> {
    from: R,
    to: &'a mut File,
    failed: &'a mut Option<io::Error>,
}

impl<R: Read> Read for Tee<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(buffer)?;
        if let Err(e) = self.to.write_all(&buffer[..got]) {
            *self.failed = Some(e);
            return Err(io::Error::other("it cannot be kept"));
        }
        Ok(got)
    }
}

/// A file that gets its name when it is whole and on the disk.
#[derive(Debug)]
struct Draft {
    file: File,
    dir: LocalDir,
    draft: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Draft {
    fn begin(target: &Path) -> Outcome<Self> {
        let shown = target.display();
        if fs::symlink_metadata(target).is_ok() {
            return Err(format!(
                "{shown}: it exists; a backup replaces nothing: name another file, or remove it"
            )
            .into());
        }
        let mut name = OsString::from(target.file_name().ok_or("a file name is wanted")?);
        name.push(DRAFT_SUFFIX);
        let draft = target.with_file_name(name);
        let cannot = |e: &dyn std::fmt::Display| format!("{}: {e}", draft.display());
        let (dir, name) = LocalDir::of_entry(&draft).map_err(|e| cannot(&e))?;
        let file = open_draft(&dir, name).map_err(|e| cannot(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(cannot(&"another `weft backup` is writing it").into());
            }
            Err(fs::TryLockError::Error(e)) => return Err(cannot(&e).into()),
        }
        // What an interrupted one left.
        file.set_len(0).map_err(|e| cannot(&e))?;
        Ok(Self { file, dir, draft, target: target.to_owned(), finished: false })
    }

    fn failed(&self, why: &BackupError) -> String {
        format!("{}: no backup was made: {why}", self.target.display())
    }

    fn finish(&mut self) -> Outcome {
        let synced = self.file.sync_all();
        let kept = synced.and_then(|()| durable::rename(&self.draft, &self.target));
        kept.map_err(|e| self.failed(&BackupError::Output(e)))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            // Were it to stay, the next backup of that name would begin by emptying it.
            let _ = self.draft.file_name().map(|name| self.dir.remove(name));
        }
    }
}

/// Makes the file of a draft, or opens the one that an interrupted backup of ours has left. Another
/// user's file would tell that user all names of the volume.
fn open_draft(dir: &LocalDir, name: &OsStr) -> io::Result<File> {
    match dir.create_file(name, DRAFT_MODE) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let file = dir.open_to_write(name)?;
    let found = file.metadata()?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw() && found.nlink() == 1;
    match is_ours && found.mode() & OTHERS == 0 {
        true => Ok(file),
        false => Err(io::Error::other("is there, and other users can read it: remove it")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A draft is begun again where a backup of ours ended; a fifo, a link and a file that others
    /// can read under its name are refused, and nothing waits.
    #[test]
    fn planted_drafts_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        mknodat(CWD, at("fifo.partial"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        fs::write(at("elsewhere"), b"mine").unwrap();
        symlink("elsewhere", at("link.partial")).unwrap();
        for (name, mode) in [("open.partial", 0o644), ("left.partial", 0o600)] {
            fs::write(at(name), b"left").unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (name, why) in [
            ("fifo", "fifo.partial: is not a regular file"),
            ("link", "link.partial: is a symbolic link"),
            ("open", "open.partial: is there, and other users can read it"),
            ("open.partial", "it exists"),
        ] {
            let said = Draft::begin(&at(name)).unwrap_err().to_string();
            assert!(said.contains(why), "{name}: {said}");
        }
        assert_eq!(fs::read(at("elsewhere")).unwrap(), b"mine");
        for name in ["left", "new"] {
            let draft = Draft::begin(&at(name)).unwrap();
            let found = draft.file.metadata().unwrap();
            assert_eq!((found.len(), found.mode() & 0o777), (0, 0o600), "{name}");
            drop(draft);
            assert!(!at(&format!("{name}.partial")).exists(), "{name}");
        }
    }
}
