//! `weft layout`: how the files of a directory are spread over data servers (P1.3). It is an
//! extended attribute, so that any NFS client with those can do the same.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use weft_client::fs::{Client, FsError};
use weft_nfs::{FileType, NfsStat};
use weft_store::types::{Deal, LAYOUT_XATTR, LayoutChoice};

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg, remote_path},
    glob,
    quote::one_line,
    troubles::Troubles,
};
use crate::outcome::{Outcome, OutputError};

/// Options of `weft layout`.
#[derive(Debug, Args)]
pub struct LayoutArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Choose for the files that are made in a directory, and below it, from now on. What is not
    /// said is as the file system has it. Only the directory's owner and root may.
    Set(SetArgs),
    /// Show what a directory chose, or how a file is spread.
    #[command(visible_alias = "get")]
    Show {
        /// Remote paths; patterns in quotes.
        #[arg(required = true)]
        #[arg(value_parser = remote_path())]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        server: ServerArg,
    },
    /// Take a directory's choice back: new files are spread as the file system has it.
    Clear {
        /// Remote directory.
        #[arg(value_parser = remote_path())]
        dir: PathBuf,
        #[command(flatten)]
        server: ServerArg,
    },
}

/// What to choose.
#[derive(Debug, Args)]
struct SetArgs {
    /// Remote directory.
    #[arg(value_parser = remote_path())]
    dir: PathBuf,
    /// Bytes on one data server before the next one's turn: a multiple of 1MiB, to 64MiB.
    #[arg(long, value_name = "SIZE")]
    stripe_unit: Option<String>,
    /// Data servers of a file, at most.
    #[arg(long, value_name = "N")]
    count: Option<String>,
    /// round-robin; cyclic, by a list of data servers; nested, over groups and in each over its
    /// data servers; variable, with a unit for the beginning of a file and another for what is
    /// behind it, which only the metadata server can read and write; or replicated, with all bytes
    /// on several data servers: clients read from all of them, and write through the metadata
    /// server.
    #[arg(long, value_name = "NAME")]
    distribution: Option<String>,
    /// For cyclic: the numbers of data servers in turn, as `weft status` shows them. One that is
    /// there twice gets twice as much. To 16.
    #[arg(long, value_name = "N,N,…")]
    servers: Option<String>,
    /// For nested: the groups in turn, each as for cyclic; with all their rounds to 16 numbers.
    #[arg(long, value_name = "N,N/N,N…")]
    groups: Option<String>,
    /// For nested: how many rounds each group has in its turn; for variable: how many rounds of
    /// stripe units come first [default: 1].
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// For variable: the unit of what is behind them.
    #[arg(long, value_name = "SIZE")]
    later_unit: Option<String>,
    /// For replicated: how many data servers have each file whole, 2 to 8.
    #[arg(long, value_name = "N")]
    copies: Option<String>,
    #[command(flatten)]
    server: ServerArg,
}

impl LayoutArgs {
    pub(super) fn server(&self) -> &ServerArg {
        match &self.what {
            What::Set(args) => &args.server,
            What::Show { server, .. } | What::Clear { server, .. } => server,
        }
    }
}

impl SetArgs {
    /// In the words of the attribute.
    fn words(&self) -> String {
        let parts = [
            ("stripe_unit", &self.stripe_unit),
            ("stripe_count", &self.count),
            ("distribution", &self.distribution),
            ("servers", &self.servers),
            ("groups", &self.groups),
            ("rounds", &self.rounds),
            ("later_unit", &self.later_unit),
            ("copies", &self.copies),
        ];
        let said = parts.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let words: Vec<_> = said.map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }
}

/// `weft layout`.
pub(super) async fn layout(clusters: &mut Clusters, args: LayoutArgs) -> Outcome {
    let remote = clusters.usual().await?;
    match args.what {
        What::Set(args) => set(&remote, &args).await,
        What::Show { paths, .. } => show(&remote, &paths).await,
        What::Clear { dir, .. } => {
            let dir = require_directory(&remote, &dir).await?;
            let removed = remote.client.remove_xattr(&dir, name()).await;
            Ok(removed.map(drop).map_err(|e| refusal(&remote, &dir, &e))?)
        }
    }
}

/// The choice of a directory or the layout of a file, in words; `None` if neither is there.
///
/// # Errors
/// As [`Client::xattr`].
pub(super) async fn words_of(client: &Client, path: &Path) -> Result<Option<String>, FsError> {
    let value = client.xattr(path, name()).await?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

fn name() -> &'static str {
    std::str::from_utf8(LAYOUT_XATTR).expect("a word")
}

async fn set(remote: &Remote, args: &SetArgs) -> Outcome {
    let choice: LayoutChoice = args.words().parse().map_err(|e| format!("no layout: {e}"))?;
    let dir = require_directory(remote, &args.dir).await?;
    let set = remote.client.set_xattr(&dir, name(), choice.to_string()).await;
    Ok(set.map_err(|e| match e.error.status() {
        Some(NfsStat::INVAL) if !choice.named().is_empty() => format!(
            "{}: the server knows not all of these data servers: `weft status` shows their numbers",
            remote.show(&dir)
        ),
        Some(NfsStat::INVAL) if matches!(choice.deal, Deal::Replicated(_)) => {
            format!("{}: there are not so many data servers: see `weft status`", remote.show(&dir))
        }
        _ => refusal(remote, &dir, &e),
    })?)
}

/// Why a choice was not made or taken back.
fn refusal(remote: &Remote, dir: &Path, e: &FsError) -> String {
    match e.error.status() {
        Some(NfsStat::PERM | NfsStat::ACCESS) => {
            format!("{}: only the owner of a directory and root choose for it", remote.show(dir))
        }
        _ => remote.failed(e),
    }
}

async fn require_directory(remote: &Remote, dir: &Path) -> Outcome<PathBuf> {
    let path = remote.path(dir);
    let attrs = remote.client.stat_followed(&path).await.map_err(|e| remote.failed(&e))?;
    if attrs.file_type != Some(FileType::DIR) {
        let shown = remote.show(&path);
        return Err(format!("{shown}: a layout is chosen for a directory, and this is none").into());
    }
    Ok(path)
}

async fn show(remote: &Remote, paths: &[PathBuf]) -> Outcome {
    let mut troubles = Troubles::default();
    for path in glob::expand(remote, paths).await? {
        let words = words_of(&remote.client, &path).await.map_err(|e| remote.failed(&e));
        let Some(words) = troubles.hear(words) else { continue };
        let words = words.unwrap_or_else(|| "as the file system has it".into());
        let shown = one_line(&path.display().to_string());
        writeln!(std::io::stdout(), "{shown}: {}", one_line(&words)).map_err(OutputError::from)?;
    }
    troubles.outcome()
}
