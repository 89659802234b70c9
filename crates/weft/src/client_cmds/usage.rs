//! `weft du` and `weft df`: who needs how much room, and how much there is.

use std::{
    collections::HashSet,
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use weft_nfs::Attrs;

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg},
    glob, human,
    quote::quoted,
    tree::{Step, Walk},
    troubles::Troubles,
};
use crate::outcome::{Outcome, OutputError};

/// Files of several names that are remembered, to be counted once: about 64 MiB.
const LINKED_MAX: usize = 1 << 20;

/// Options of `weft du`.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct DuArgs {
    /// Remote paths; patterns in quotes.
    #[arg(default_value = "/")]
    paths: Vec<PathBuf>,
    /// One line for each path that was given.
    #[arg(short, long)]
    summarize: bool,
    /// Sizes in K, M, G and so on, instead of KiB.
    #[arg(short, long)]
    human_readable: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft df`.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct DfArgs {
    /// A remote path.
    #[arg(default_value = "/")]
    path: PathBuf,
    /// Sizes in K, M, G and so on, instead of KiB.
    #[arg(short, long)]
    human_readable: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// How sizes are shown.
fn shown(bytes: u64, human_readable: bool) -> String {
    if human_readable { human::size(bytes, true) } else { bytes.div_ceil(1024).to_string() }
}

/// `weft du`: bytes that the servers hold, of a file with several names once.
pub(super) async fn du(clusters: &mut Clusters, args: DuArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let mut troubles = Troubles::default();
    let mut linked = HashSet::new();
    for path in glob::expand(&remote, &args.paths).await? {
        if let Some(walk) = troubles.hear(Walk::from(&remote, &path, usize::MAX).await) {
            du_of(walk, &args, &mut linked, &mut troubles).await?;
        }
    }
    troubles.outcome()
}

async fn du_of(
    mut walk: Walk<'_>,
    args: &DuArgs,
    linked: &mut HashSet<u64>,
    troubles: &mut Troubles,
) -> Outcome {
    let mut out = BufWriter::new(std::io::stdout());
    // Of the path itself, and of each directory on the way down.
    let mut sums: Vec<u64> = Vec::new();
    let mut top = None;
    loop {
        let (path, depth) = match walk.next().await {
            Ok(None) => break,
            Ok(Some(Step::Entry { path, attrs, depth })) => {
                sums.truncate(depth + 1);
                sums.resize(depth + 1, 0);
                sums[depth] += held(&attrs, linked);
                if depth == 0 {
                    top = Some(path);
                } else if attrs.file_type != Some(weft_nfs::FileType::DIR) {
                    sums[depth - 1] += std::mem::take(&mut sums[depth]);
                }
                continue;
            }
            Ok(Some(Step::Left { path, depth })) => (path, depth),
            Err(why) => {
                troubles.tell(why);
                continue;
            }
        };
        sums.truncate(depth + 1);
        if depth > 0 {
            let sum = sums.pop().unwrap_or(0);
            if !args.summarize {
                line(&mut out, sum, &path, args.human_readable)?;
            }
            if let Some(above) = sums.last_mut() {
                *above += sum;
            }
        }
    }
    if let Some(path) = top {
        line(&mut out, sums.first().copied().unwrap_or(0), &path, args.human_readable)?;
    }
    Ok(out.flush().map_err(OutputError::from)?)
}

fn line(
    out: &mut impl Write,
    sum: u64,
    path: &Path,
    human_readable: bool,
) -> Result<(), OutputError> {
    write!(out, "{}\t", shown(sum, human_readable))?;
    let name = path.as_os_str().as_encoded_bytes();
    match std::io::stdout().is_terminal() {
        true => out.write_all(quoted(name).as_bytes())?,
        false => out.write_all(name)?,
    }
    Ok(out.write_all(b"\n")?)
}

/// What a file needs, if it was not counted by another name.
fn held(attrs: &Attrs, linked: &mut HashSet<u64>) -> u64 {
    let is_linked = attrs.file_type != Some(weft_nfs::FileType::DIR)
        && attrs.numlinks.is_some_and(|links| links > 1);
    if let Some(fileid) = attrs.fileid.filter(|_| is_linked) {
        let is_known = linked.contains(&fileid);
        if is_known {
            return 0;
        }
        if linked.len() < LINKED_MAX {
            linked.insert(fileid);
        }
    }
    attrs.space_used.unwrap_or(0)
}

/// `weft df`.
pub(super) async fn df(clusters: &mut Clusters, args: DfArgs) -> Outcome {
    let remote: &Remote = &*clusters.usual().await?;
    let path = remote.path(&args.path);
    let node = remote.client.node(&path).await.map_err(|e| remote.failed(&e))?;
    let space = remote.client.nodes().space(&node.fh).await;
    let space = space.map_err(|e| format!("{}: {e}", remote.show(&path)))?;
    let used = space.total_bytes.saturating_sub(space.free_bytes);
    let of = used.saturating_add(space.available_bytes);
    // Rounded up, as df has it: a file system that is nearly full is not said to have room.
    let percent = (u128::from(used) * 100).div_ceil(u128::from(of.max(1)));
    let size = |bytes| shown(bytes, args.human_readable);
    let unit = if args.human_readable { "Size" } else { "KiB" };
    let mut out = std::io::stdout();
    let text = format!(
        "{:<32} {unit:>12} {:>12} {:>12} {:>5} {:>12}\n{:<32} {:>12} {:>12} {:>12} {:>5} {:>12}\n",
        "Server",
        "Used",
        "Available",
        "Use%",
        "Free files",
        remote.show(Path::new("/")),
        size(space.total_bytes),
        size(used),
        size(space.available_bytes),
        format!("{percent}%"),
        space.free_files,
    );
    Ok(out.write_all(text.as_bytes()).map_err(OutputError::from)?)
}
