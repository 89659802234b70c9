//! `weft backup`: a volume in one file, while it serves or while it is stopped.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::Args;
use rustix::fs::OFlags;
use weft_io::durable;
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
struct Draft {
    file: File,
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
        let no_follow = i32::try_from(OFlags::NOFOLLOW.bits())?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(no_follow)
            .open(&draft)
            .map_err(|e| cannot(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(cannot(&"another `weft backup` is writing it").into());
            }
            Err(fs::TryLockError::Error(e)) => return Err(cannot(&e).into()),
        }
        // What an interrupted one left.
        file.set_len(0).map_err(|e| cannot(&e))?;
        Ok(Self { file, draft, target: target.to_owned(), finished: false })
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
            let _ = fs::remove_file(&self.draft);
        }
    }
}
