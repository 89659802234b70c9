//! `weft find` and `weft cat`.

use std::{
    io::{BufWriter, IsTerminal, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use clap::Args;
use weft::size::size_of_words;
use weft_client::fs::Step;
use weft_nfs::{Attrs, FileType};

use super::{
    clusters::Clusters,
    connect::{ServerArg, remote_path},
    cp, glob,
    pattern::Pattern,
    quote::quoted,
    tree::{Limits, Trees},
    troubles::Troubles,
};
use crate::outcome::{Outcome, OutputError};

/// Options of `weft cat`.
#[derive(Debug, Clone, Args)]
pub struct CatArgs {
    /// Remote files; patterns in quotes.
    #[arg(required = true)]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// Options of `weft find`.
#[derive(Debug, Clone, Args)]
pub struct FindArgs {
    /// Remote paths; patterns in quotes.
    #[arg(default_value = "/")]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    /// Whose last name fits a pattern: * ? [a-z]. All of these may be written with one dash.
    #[arg(long, value_name = "PATTERN")]
    name: Option<std::ffi::OsString>,
    /// What is a file (f), directory (d) or link (l).
    #[arg(long = "type", value_name = "f|d|l")]
    kind: Option<Kind>,
    /// Of this many bytes, or more (+) or fewer (-) of them: 4096, +1M, -10KiB.
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE")]
    size: Option<Size>,
    /// No deeper than so many levels below a path.
    #[arg(long, value_name = "N")]
    maxdepth: Option<usize>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// The options that people write with one dash, as `find` has them.
pub const ONE_DASH: [&str; 4] = ["-name", "-type", "-size", "-maxdepth"];

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    F,
    D,
    L,
}

/// A size, and how others compare to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size(std::cmp::Ordering, u64);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let (how, words) = match text.as_bytes().first() {
            Some(b'+') => (std::cmp::Ordering::Greater, &text[1..]),
            Some(b'-') => (std::cmp::Ordering::Less, &text[1..]),
            _ => (std::cmp::Ordering::Equal, text),
        };
        let bytes = size_of_words(words);
        let bytes = bytes.ok_or_else(|| format!("{text}: write 4096, +1M or -10KiB"))?;
        Ok(Size(how, bytes))
    }
}

/// `weft cat`.
pub(super) async fn cat(clusters: &mut Clusters, args: CatArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let mut troubles = Troubles::default();
    for path in glob::expand_each(&remote, &args.paths, &mut troubles).await {
        match cp::stream(&remote, &path).await {
            Err(e) if e.is::<OutputError>() => return Err(e),
            done => troubles.hear(done.map_err(|e| e.to_string())),
        };
    }
    troubles.outcome()
}

/// `weft find`: what fits, in the order of the servers' directories.
pub(super) async fn find(clusters: &mut Clusters, args: FindArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let name = args.name.as_ref().map(|name| Pattern::new(name.as_bytes()));
    let quotes = std::io::stdout().is_terminal();
    let mut out = BufWriter::new(std::io::stdout());
    let mut troubles = Troubles::default();
    let how = Limits { depth_max: args.maxdepth.unwrap_or(usize::MAX), follows: true };
    let mut trees = Trees::of(remote, &args.paths, how, &mut troubles).await;
    while let Some(step) = trees.next(&mut troubles).await {
        let Step::Entry { path, node, .. } = step else { continue };
        let last = path.file_name().unwrap_or(path.as_os_str()).as_bytes();
        if !name.as_ref().is_none_or(|name| name.fits(last)) || !fits(&args, &node.attrs) {
            continue;
        }
        let mut line = match quotes {
            true => quoted(path.as_os_str().as_bytes()).into_bytes(),
            false => path.into_os_string().into_vec(),
        };
        line.push(b'\n');
        out.write_all(&line).map_err(OutputError::from)?;
    }
    out.flush().map_err(OutputError::from)?;
    troubles.outcome()
}

fn fits(args: &FindArgs, attrs: &Attrs) -> bool {
    let kind = args.kind.is_none_or(|kind| {
        attrs.file_type
            == Some(match kind {
                Kind::F => FileType::REG,
                Kind::D => FileType::DIR,
                Kind::L => FileType::LNK,
            })
    });
    let size = attrs.size.unwrap_or(0);
    kind && args.size.is_none_or(|Size(how, bytes)| size.cmp(&bytes) == how)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    /// More, less, and exactly.
    #[test]
    fn sizes() {
        assert_eq!("+1M".parse(), Ok(Size(Ordering::Greater, 1 << 20)));
        assert_eq!("-10KiB".parse(), Ok(Size(Ordering::Less, 10 << 10)));
        assert_eq!("7".parse(), Ok(Size(Ordering::Equal, 7)));
        assert!("+".parse::<Size>().is_err() && "1x".parse::<Size>().is_err());
    }
}
