//! `weft du` and `weft df`: who needs how much room, and how much there is.

use std::{
    collections::HashSet,
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use weft_client::fs::Step;
use weft_nfs::{Attrs, FileType};

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg, remote_path},
    human,
    quote::quoted,
    tree::{Limits, Trees},
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
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    /// One line for each path that was given.
    #[arg(short, long)]
    summarize: bool,
    #[command(flatten)]
    sizes: SizesArg,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft df`.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct DfArgs {
    /// A remote path.
    #[arg(default_value = "/")]
    #[arg(value_parser = remote_path())]
    path: PathBuf,
    #[command(flatten)]
    sizes: SizesArg,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// How sizes are written. `-h` is not the help then.
#[derive(Debug, Clone, Args)]
struct SizesArg {
    /// Sizes in K, M, G and so on, instead of KiB.
    #[arg(short, long)]
    human_readable: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// How sizes are shown.
fn shown(bytes: u64, human_readable: bool) -> String {
    if human_readable { human::size(bytes, true) } else { bytes.div_ceil(1024).to_string() }
}

/// `weft du`: bytes that the servers hold, of a file with several names once. What cannot be seen
/// is told, and counts nothing.
pub(super) async fn du(clusters: &mut Clusters, args: DuArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let mut troubles = Troubles::default();
    let mut linked = HashSet::new();
    let mut out = BufWriter::new(std::io::stdout());
    // Of the path itself, and of each directory on the way down.
    let mut sums: Vec<u64> = Vec::new();
    let mut trees = Trees::of(remote, &args.paths, Limits::NONE, &mut troubles).await;
    while let Some(step) = trees.next(&mut troubles).await {
        let (path, depth) = match step {
            Step::Entry { path, node, depth } => {
                sums.push(held(&node.attrs, &mut linked));
                if node.attrs.file_type == Some(FileType::DIR) {
                    continue;
                }
                (path, depth)
            }
            Step::Left { path, depth } => {
                if depth > 0 && !args.summarize {
                    let sum = sums.last().copied().unwrap_or(0);
                    line(&mut out, sum, &path, args.sizes.human_readable)?;
                }
                (path, depth)
            }
        };
        let sum = sums.pop().unwrap_or(0);
        match sums.last_mut() {
            Some(above) if depth > 0 => *above += sum,
            _ => line(&mut out, sum, &path, args.sizes.human_readable)?,
        }
    }
    out.flush().map_err(OutputError::from)?;
    troubles.outcome()
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
    let is_linked =
        attrs.file_type != Some(FileType::DIR) && attrs.numlinks.is_some_and(|links| links > 1);
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
    let size = |bytes| shown(bytes, args.sizes.human_readable);
    let unit = if args.sizes.human_readable { "Size" } else { "KiB" };
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
