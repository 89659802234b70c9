//! `weft cp`, `weft put` and `weft get`: one engine for copies between clusters, and between a
//! cluster and this machine.

mod content;
mod facts;
mod folder;
mod guard;
mod how;
mod local;
mod place;
mod report;
mod spot;
mod verify;
mod walk;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use rustix::fs::OFlags;
use weft_client::{
    ClientError,
    fs::{FsError, Naming, Upload},
    url::Url,
};
use weft_io::LocalDir;

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg, means_content, means_directory, remote_path},
    glob,
    umask::file_mode,
};
use crate::outcome::{Outcome, OutputError};
use facts::Kind;
use folder::Folder;
use how::{BOTH_LOCAL, How};
use place::{Place, sync_local};
use report::Report;
use spot::Spot;
use walk::Copy;

/// Standard input, or output.
const STANDARD: &str = "-";
/// What begins a path of the server that `--server` names.
const OF_SERVER: &[u8] = b":";
/// What begins a path of any server.
pub(super) const OF_URL: &[u8] = b"weft://";
/// Options of `weft cp`.
#[derive(Debug, Clone, Args)]
pub struct CpArgs {
    /// What to copy: a local path, weft://HOST[:PORT]/PATH, :/PATH for the server of --server, or -
    /// for standard input. Remote paths may have patterns in them (quoted): * ? [a-z].
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<OsString>,
    /// Where to: the same forms, and a directory for several; - is standard output.
    destination: OsString,
    /// Directories with everything below; links as links.
    #[arg(short, long)]
    recursive: bool,
    /// Keep modes and times, and as root the owner.
    #[arg(short, long)]
    preserve: bool,
    /// Read both sides again and compare them.
    #[arg(long)]
    verify: bool,
    /// Pass over files that are there already with the same size and time of change, as copies
    /// made with -p or --resume have it. DIR/. as the source is the same copy each time.
    #[arg(long)]
    resume: bool,
    /// Name each file when it is copied, and say whether the servers did that themselves, as they
    /// do within one cluster.
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft put`.
#[derive(Debug, Clone, Args)]
pub struct PutArgs {
    /// Local files; - is standard input.
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Remote file, or directory to put them in.
    #[arg(value_parser = remote_path())]
    destination: PathBuf,
    /// Directories with everything below.
    #[arg(short, long)]
    recursive: bool,
    /// Write into the file that is there, which keeps hard links and owner; if that fails, its
    /// old content is lost.
    #[arg(long)]
    in_place: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// Remote files; patterns in quotes: * ? [a-z].
    #[arg(required = true, value_name = "SOURCE")]
    #[arg(value_parser = remote_path())]
    sources: Vec<PathBuf>,
    /// Local file, or directory to put them in; - is standard output.
    destination: PathBuf,
    /// Directories with everything below.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// A side of a copy.
#[derive(Clone)]
enum End {
    Standard,
    Path(Place, PathBuf),
}

/// `weft cp`.
pub(super) async fn cp(clusters: &mut Clusters, args: CpArgs) -> Outcome {
    let how = How {
        command: "cp",
        recursive: args.recursive,
        follows_given: !args.recursive,
        preserve: args.preserve,
        verify: args.verify,
        resume: args.resume,
        verbose: args.verbose,
        syncs: true,
        ..How::default()
    };
    let mut sources = Vec::new();
    for source in &args.sources {
        match end_of(clusters, source).await? {
            End::Path(Place::Cluster(remote), path) => {
                let paths = glob::expand_one(&remote, &path).await?;
                let of = |path| End::Path(Place::Cluster(remote.clone()), path);
                sources.extend(paths.into_iter().map(of));
            }
            end => sources.push(end),
        }
    }
    let destination = end_of(clusters, &args.destination).await?;
    copy_all(sources, destination, how).await
}

/// `weft put`.
pub(super) async fn put(clusters: &mut Clusters, args: PutArgs) -> Outcome {
    let how = How {
        command: "put",
        recursive: args.recursive,
        follows_given: true,
        in_place: args.in_place,
        ..How::default()
    };
    let remote = clusters.usual().await?;
    let local = |path: PathBuf| match path == Path::new(STANDARD) {
        true => End::Standard,
        false => End::Path(Place::Local, path),
    };
    let destination = remote.path(&args.destination);
    let sources = args.sources.into_iter().map(local).collect();
    copy_all(sources, End::Path(Place::Cluster(remote), destination), how).await
}

/// `weft get`.
pub(super) async fn get(clusters: &mut Clusters, args: GetArgs) -> Outcome {
    let how =
        How { command: "get", recursive: args.recursive, follows_given: true, ..How::default() };
    let remote = clusters.usual().await?;
    let sources = glob::expand(&remote, &args.sources).await?;
    let of = |path| End::Path(Place::Cluster(remote.clone()), path);
    copy_all(sources.into_iter().map(of).collect(), local_end(args.destination), how).await
}

/// A side as it was written.
async fn end_of(clusters: &mut Clusters, word: &OsStr) -> Outcome<End> {
    let bytes = word.as_bytes();
    if bytes.starts_with(OF_URL) {
        let text = word.to_str().ok_or("a URL writes other bytes as %XX")?;
        let url: Url = text.parse()?;
        let remote = clusters.of(&url).await?;
        return Ok(End::Path(Place::Cluster(remote), url.path));
    }
    if let Some(path) = bytes.strip_prefix(OF_SERVER) {
        let remote = clusters.usual().await?;
        let path = remote.path(Path::new(OsStr::from_bytes(path)));
        return Ok(End::Path(Place::Cluster(remote), path));
    }
    Ok(local_end(OsString::from_vec(bytes.to_vec()).into()))
}

/// Whatever standard output is: opened by its name, a file would be written from its start.
fn local_end(path: PathBuf) -> End {
    match path == Path::new(STANDARD) || path == Path::new("/dev/stdout") {
        true => End::Standard,
        false => End::Path(Place::Local, path),
    }
}

async fn copy_all(sources: Vec<End>, destination: End, how: How) -> Outcome {
    let is_stream = |end: &End| matches!(end, End::Standard);
    let is_kept = how.preserve || how.verify || how.resume;
    if is_kept && (is_stream(&destination) || sources.iter().any(is_stream)) {
        return Err("-: a stream has no times and is not read again: leave out -p, --verify and \
                    --resume"
            .into());
    }
    let End::Path(to, destination) = destination else { return to_stdout(sources, how).await };
    let is_local = |source: &End| matches!(source, End::Standard | End::Path(Place::Local, _));
    if matches!(to, Place::Local) && sources.iter().any(is_local) {
        return Err(BOTH_LOCAL.into());
    }
    let there = to.look(&Spot::given(&destination), true).await?;
    let is_dir = there.is_some_and(|f| f.kind == Kind::Dir);
    let shown = to.show(&destination);
    if !is_dir && destination.as_os_str().as_bytes().ends_with(b"/") && !how.recursive {
        return Err(format!("{shown}: no such directory").into());
    }
    if sources.len() > 1 && !is_dir {
        return Err(format!("{shown}: not a directory, and there are several files to copy").into());
    }
    check_names(&sources, (&to, &destination))?;
    if how.resume && how.recursive && is_dir {
        require_place(&sources, (&to, &destination)).await?;
    }
    let report = Report::new();
    let is_lone = sources.len() == 1;
    let targets = Targets::of((&to, &destination), is_dir, &how)?;
    for source in &sources {
        let (target, naming) = targets.of_source(source);
        let copied = match source {
            End::Standard if is_dir => Err("give standard input a name, not a directory".into()),
            End::Standard => from_stdin(&to, &target.path, (how, &report)).await,
            End::Path(from, path) => {
                let copy = Copy::new((from.clone(), to.clone()), how, report.clone());
                copy.run(path, (target, naming)).await
            }
        };
        match copied {
            Err(why) if is_lone => {
                report.end(why);
            }
            Err(why) => report.failed(&why),
            Ok(()) => {}
        }
    }
    let synced = match how.syncs && matches!(to, Place::Local) && report.has_copied() {
        true => tokio::task::spawn_blocking(move || sync_local(&destination)).await?,
        false => Ok(()),
    };
    // Why something was not copied is told first: there may be nothing to sync for that reason.
    report.outcome()?;
    synced
}

/// Where the sources of a command go.
struct Targets<'a> {
    destination: &'a Path,
    is_dir: bool,
    /// The destination, if it is a directory of this machine.
    folder: Option<Arc<Folder>>,
    /// How a name in the destination is used.
    naming: Naming,
}

impl Targets<'_> {
    fn of<'a>(
        (to, destination): (&Place, &'a Path),
        is_dir: bool,
        how: &How,
    ) -> Result<Targets<'a>, String> {
        let folder = match to {
            Place::Local if is_dir => {
                let opened = LocalDir::open(destination).and_then(Folder::top);
                Some(opened.map_err(|e| format!("{}: {e}", to.show(destination)))?)
            }
            _ => None,
        };
        // Its name is the source's. Whoever owns the destination may have put a link there.
        // In place means what is there, but no directory behind a link.
        let is_followed = how.in_place && !how.recursive;
        let naming = if is_followed { Naming::Given } else { Naming::Listed };
        Ok(Targets { destination, is_dir, folder, naming })
    }

    fn of_source(&self, source: &End) -> (Spot, Naming) {
        match last_name(source) {
            Some(name) if self.is_dir => {
                (Spot::below(self.destination, self.folder.as_ref(), &name), self.naming)
            }
            _ => (Spot::given(self.destination), Naming::Given),
        }
    }
}

async fn from_stdin(
    to: &Place,
    target: &Path,
    (how, report): (How, &Arc<Report>),
) -> Result<(), String> {
    let Place::Cluster(remote) = to else { return Err(BOTH_LOCAL.into()) };
    if is_closed_stdin() {
        return Err("-: standard input is closed (or /dev/null, to be read and written): nothing \
                    was copied; `< /dev/null` makes an empty file"
            .into());
    }
    let upload = Upload::stream(io::stdin(), file_mode()).with_progress(report.progress());
    let upload = if how.in_place { upload.in_place() } else { upload };
    remote.client.put(upload, target).await.map_err(|e| remote.failed(&e))?;
    report.done();
    Ok(())
}

/// Whether this process was started without a standard input. Rust's runtime opens /dev/null in
/// its place then, for reading and writing, and what was to be copied would be an empty file. Some
/// programs open it so for those that they start and that are to read nothing.
fn is_closed_stdin() -> bool {
    let is_null = || {
        let (stdin, null) = (rustix::fs::fstat(io::stdin())?, rustix::fs::stat("/dev/null")?);
        let is_both = rustix::fs::fcntl_getfl(io::stdin())? & OFlags::ACCMODE == OFlags::RDWR;
        rustix::io::Result::Ok(stdin.st_rdev == null.st_rdev && is_both)
    };
    is_null().unwrap_or(false)
}

async fn to_stdout(sources: Vec<End>, how: How) -> Outcome {
    let [source] = &sources[..] else {
        let hint = "`weft cat` writes several";
        return Err(format!("standard output is one file ({hint})").into());
    };
    let End::Path(Place::Cluster(remote), path) = source else { return Err(BOTH_LOCAL.into()) };
    let attrs = remote.client.stat_followed(path).await.map_err(|e| remote.failed(&e))?;
    if facts::Facts::of_remote(attrs).kind == Kind::Dir {
        let name = how.command;
        return Err(format!("{}: is a directory ({name} -r copies it)", remote.show(path)).into());
    }
    stream(remote, path).await
}

/// Writes a file to standard output. Whoever wanted only the beginning has it; whoever wanted all
/// of it must not believe so.
pub(super) async fn stream(remote: &Remote, path: &Path) -> Outcome {
    match remote.client.get_stream(path, io::stdout(), Arc::new(|_| {})).await {
        Err(FsError { error: ClientError::Local(e), .. })
            if e.kind() == io::ErrorKind::BrokenPipe =>
        {
            let path = remote.show(path);
            Err(format!("{path}: not all of it was read: the reader has gone").into())
        }
        Err(FsError { error: ClientError::Local(e), .. }) => {
            Err(OutputError::from(io::Error::new(e.kind(), e)).into())
        }
        done => Ok(done.map(drop).map_err(|e| remote.failed(&e))?),
    }
}

/// Each has a name of its own there: the last one would replace the others.
fn check_names(sources: &[End], (to, destination): (&Place, &Path)) -> Outcome {
    let mut seen = BTreeSet::new();
    for name in sources.iter().filter_map(last_name) {
        if !seen.insert(name.clone()) {
            let path = to.show(&destination.join(name));
            return Err(format!("several files would become {path}").into());
        }
    }
    Ok(())
}

/// Whether a directory was made by the copy that is resumed, or the copy was to be made in it, only
/// its name there tells, or a slash at the end: without one nobody knows, and a second copy beside
/// half of the first is nothing that was asked for. Several are copied into it, and no copy has
/// made a root.
async fn require_place(sources: &[End], (to, destination): (&Place, &Path)) -> Outcome {
    let ([source], Some(_)) = (sources, destination.file_name()) else { return Ok(()) };
    let (End::Path(from, path), Some(name)) = (source, last_name(source)) else { return Ok(()) };
    let target = destination.join(&name);
    if means_directory(destination) || to.look(&Spot::given(&target), false).await?.is_some() {
        return Ok(());
    }
    let facts = from.look(&Spot::given(path), means_directory(path)).await?;
    if facts.is_none_or(|facts| facts.kind != Kind::Dir) {
        return Ok(());
    }
    let (path, there, target) = (from.show(path), to.show(destination), to.show(&target));
    Err(format!(
        "{there}: is there already: with --resume write {path}/. to go on with a copy that was \
         begun in it, or {target} as the destination for a new one"
    )
    .into())
}

/// The name a file is copied under; none for standard input, for a root, and for what is in a
/// directory (`DIR/.`).
fn last_name(source: &End) -> Option<OsString> {
    match source {
        End::Standard => None,
        End::Path(_, path) if means_content(path) => None,
        End::Path(Place::Cluster(_), path) => path.file_name().map(OsStr::to_owned),
        End::Path(Place::Local, path) => {
            let named = path.file_name().map(OsStr::to_owned);
            named.or_else(|| fs::canonicalize(path).ok()?.file_name().map(OsStr::to_owned))
        }
    }
}
