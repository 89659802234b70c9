//! `weft backup`: a volume in one file, while it serves or while it is stopped.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use rustix::fs::OFlags;
use weft::{
    address::reachable,
    admin_service::{BackupChallenge, BackupProof},
    config::MdsConfig,
};
use weft_io::durable;
use weft_server::{
    clock::Clock,
    identity::{ClusterSecrets, hex},
};
use weft_store::{
    types::Timestamp,
    volume::{BackupError, BackupHeader, BackupReader, BackupSummary, Volume},
};

use crate::{
    admin::told_of_waiting,
    endpoints::Endpoints,
    fsck::open_volume,
    outcome::{Outcome, OutputError},
    utc::utc,
};

/// How long the server may take to begin.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What is added to the name of a backup that is not whole yet.
const DRAFT_SUFFIX: &str = ".partial";
/// Longest refusal that is read, bytes.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;

/// Options of `weft backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The file to make; there must be none of that name.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory of the `weft up` that serves the volume.
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".weft",
        conflicts_with_all = ["admin", "config", "mds"]
    )]
    dir: PathBuf,
    /// Configuration of the `weft mds` that serves it, instead of --dir.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["admin", "mds"])]
    config: Option<PathBuf>,
    /// Admin address of the metadata server that serves it, instead of --dir.
    #[arg(long, value_name = "ADDR:PORT", requires = "secret", conflicts_with = "mds")]
    admin: Option<SocketAddr>,
    /// File with the cluster's secret, for --admin.
    #[arg(long, value_name = "FILE", requires = "admin")]
    secret: Option<PathBuf>,
    /// Data directory of a metadata server that is stopped.
    #[arg(long, value_name = "DIR")]
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
    let (address, secret) = server(args)?;
    let mut answer = ask(address, &ClusterSecrets::load(&secret)?)?;
    let (mut failed, target) = (None, draft.target.clone());
    let tee = Tee { from: answer.body_mut().as_reader(), to: &mut draft.file, failed: &mut failed };
    let taken = BackupReader::start(tee).and_then(|mut reader| {
        while reader.next_block()?.is_some() {}
        Ok((reader.header().clone(), reader.summary()))
    });
    match (taken, failed) {
        (_, Some(e)) => Err(draft.failed(&BackupError::Output(e)).into()),
        (Err(e), None) => Err(format!(
            "{}: no backup was made: what came from the server at {address} is not whole ({e}); \
             its log says why. Try again",
            target.display()
        )
        .into()),
        (Ok(whole), None) => Ok(whole),
    }
}

/// Where the server is, and the secret that it knows.
fn server(args: &BackupArgs) -> Outcome<(SocketAddr, PathBuf)> {
    if let (Some(admin), Some(secret)) = (args.admin, &args.secret) {
        return Ok((admin, secret.clone()));
    }
    if let Some(file) = &args.config {
        let config = MdsConfig::load(file)?;
        return Ok((reachable(config.admin_listen), config.cluster_secret_file));
    }
    let Some(endpoints) = Endpoints::load(&args.dir)? else {
        return Err(format!(
            "{}: not the directory of a `weft up`; --config names that of a `weft mds`, --mds the \
             directory of a stopped one",
            args.dir.display()
        )
        .into());
    };
    Ok((endpoints.admin, args.dir.join("cluster.secret")))
}

fn ask(address: SocketAddr, secret: &ClusterSecrets) -> Outcome<ureq::http::Response<ureq::Body>> {
    let url = format!("http://{address}/backup");
    let nobody = |e| {
        format!(
            "no answer from the admin service at {address}: {e}; of a stopped metadata server, \
             `weft backup FILE --mds DIR` makes a backup from its directory"
        )
    };
    let agent = ureq::Agent::config_builder().timeout_connect(Some(TIMEOUT));
    let agent = agent.timeout_recv_response(Some(TIMEOUT)).http_status_as_error(false);
    let agent: ureq::Agent = agent.build().into();
    let asked = told_of_waiting(address, || agent.get(&url).call());
    let mut asked = asked.map_err(nobody)?;
    let BackupChallenge { challenge } = serde_json::from_slice(&asked.body_mut().read_to_vec()?)
        .map_err(|_| format!("{address}: the server there gives no backups"))?;
    let proof = BackupProof { proof: secret.admin_key().backup_proof(&challenge) };
    let posted = agent.post(&url).header("Content-Type", "application/json");
    let mut answer = posted.send(&serde_json::to_vec(&proof)?[..]).map_err(nobody)?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let mut body = Vec::new();
    answer.body_mut().as_reader().take(REFUSAL_BYTES_MAX).read_to_end(&mut body)?;
    let refusal: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let why = refusal["error"].as_str().map_or(answer.status().to_string(), str::to_owned);
    Err(format!("the metadata server at {address}: {why}").into())
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
