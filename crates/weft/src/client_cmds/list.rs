//! `weft ls`, and how attributes are shown.

use std::{
    ffi::OsStr,
    io::{BufWriter, IsTerminal, Stdout, Write, stdout},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use clap::Args;
use weft_client::fs::{DirEntry, FsError};
use weft_nfs::{Attrs, FileType, NfsStat, NfsTime, Opaque};

use super::{
    clusters::Clusters,
    connect::{Remote, ServerArg, remote_path},
    glob, human,
    quote::{printable, quoted},
    troubles::Troubles,
};
use crate::outcome::{Outcome, OutputError};

/// Options of `weft ls`.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct LsArgs {
    /// Remote directories or files; patterns in quotes.
    #[arg(default_value = "/")]
    #[arg(value_parser = remote_path())]
    paths: Vec<PathBuf>,
    /// With mode, owner, size and time.
    #[arg(short, long)]
    long: bool,
    /// Names that begin with a point too.
    #[arg(short, long)]
    all: bool,
    /// Directories themselves, not what is in them.
    #[arg(short, long)]
    directory: bool,
    /// With -l, sizes in K, M, G and so on.
    #[arg(short, long)]
    human_readable: bool,
    /// What is below directories too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Sorted, the largest and the newest first. Otherwise the order is the server's, and a
    /// directory of any size needs no memory.
    #[arg(long, value_name = "name|size|time")]
    sort: Option<Order>,
    /// In the opposite order; by name if no other is said.
    #[arg(short, long)]
    reverse: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pub(super) server: ServerArg,
}

/// What entries are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    Name,
    Size,
    Time,
}

type Out = BufWriter<Stdout>;

/// Lists directories, or names files. Attributes come with the names (P3.5), or one by one. An
/// entry that the server tells nothing of is shown with `?`, and is an error at the end. Names are
/// shown as they are, but on a terminal quoted where that is needed.
pub(super) async fn ls(clusters: &mut Clusters, args: LsArgs) -> Outcome {
    let remote = clusters.usual().await?;
    let how = Shown { long: args.long, human: args.human_readable, quoted: stdout().is_terminal() };
    let mut out = BufWriter::new(stdout());
    let mut troubles = Troubles::default();
    let paths = glob::expand(&remote, &args.paths).await?;
    let mut directories = Vec::new();
    for path in paths.iter().rev() {
        let found = remote.client.stat(path).await.map_err(|e| remote.failed(&e));
        let Some(attrs) = troubles.hear(found) else { continue };
        if !args.directory && is_dir(&remote, path, &attrs).await {
            directories.push(path.clone());
            continue;
        }
        let name = if paths.len() > 1 { path.as_os_str() } else { last(path) };
        line(&mut out, &attrs, name.as_encoded_bytes(), how)?;
    }
    let titled = args.recursive || paths.len() > 1;
    let mut is_first = directories.len() == paths.len();
    while let Some(path) = directories.pop() {
        if titled {
            let between = if is_first { "" } else { "\n" };
            let title = format!("{between}{}:\n", printable(&path.display().to_string()));
            out.write_all(title.as_bytes()).map_err(OutputError::from)?;
        }
        is_first = false;
        match list(&remote, &path, (&args, how), &mut out).await {
            Err(e) if e.is::<OutputError>() => return Err(e),
            Err(e) => troubles.tell(e.to_string()),
            Ok(below) => directories.extend(below),
        }
    }
    out.flush().map_err(OutputError::from)?;
    troubles.outcome()
}

fn last(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(path.as_os_str())
}

/// Whether a path leads to a directory.
async fn is_dir(remote: &Remote, path: &Path, attrs: &Attrs) -> bool {
    match attrs.file_type {
        Some(FileType::LNK) => {
            let behind = remote.client.stat_followed(path).await;
            behind.is_ok_and(|behind| behind.file_type == Some(FileType::DIR))
        }
        kind => kind == Some(FileType::DIR),
    }
}

/// Lists one directory; returns those in it that are listed next, the last one first.
async fn list(
    remote: &Remote,
    path: &Path,
    (args, how): (&LsArgs, Shown),
    out: &mut Out,
) -> Outcome<Vec<PathBuf>> {
    let failed = |e: FsError| remote.failed(&e);
    let one_by_one = args.server.one_by_one;
    let mut entries = match one_by_one {
        true => remote.client.read_names(path).await.map_err(failed)?,
        false => remote.client.read_dir(path).await.map_err(failed)?,
    };
    let order = args.sort.or(args.reverse.then_some(Order::Name));
    let (mut untold, mut sorted, mut below) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(mut entry) = entries.next().await.map_err(failed)? {
        if entry.name.0.starts_with(b".") && !args.all {
            continue;
        }
        if let Some(why) = entry.attrs.rdattr_error.filter(|s| *s != NfsStat::OK) {
            untold.push(format!("{} ({why})", String::from_utf8_lossy(&entry.name.0)));
        }
        let here = path.join(OsStr::from_bytes(&entry.name.0));
        if one_by_one && (args.long || args.recursive || order.is_some()) {
            entry.attrs = remote.client.stat(&here).await.map_err(failed)?;
        }
        if order.is_some() {
            sorted.push(entry);
            continue;
        }
        if args.recursive && entry.attrs.file_type == Some(FileType::DIR) {
            below.push(here);
        }
        line(out, &entry.attrs, &entry.name.0, how)?;
    }
    if let Some(order) = order {
        sort(&mut sorted, order, args.reverse);
    }
    for entry in sorted {
        if args.recursive && entry.attrs.file_type == Some(FileType::DIR) {
            below.push(path.join(OsStr::from_bytes(&entry.name.0)));
        }
        line(out, &entry.attrs, &entry.name.0, how)?;
    }
    below.reverse();
    if !args.long || untold.is_empty() {
        return Ok(below);
    }
    let (some, more) = untold.split_at(untold.len().min(UNTOLD_NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Err(format!(
        "{}: the server cannot tell the attributes of {}{more} now; `weft status` says which \
         servers are away",
        remote.show(path),
        some.join(", ")
    )
    .into())
}

/// By name from the first to the last, by size and time from the most; equal ones by name.
fn sort(entries: &mut [DirEntry], order: Order, reverse: bool) {
    let time = |e: &DirEntry| e.attrs.time_modify.map(|t| (t.seconds, t.nseconds));
    entries.sort_by(|a, b| {
        let by_name = || a.name.0.cmp(&b.name.0);
        let ordered = match order {
            Order::Name => by_name(),
            Order::Size => b.attrs.size.cmp(&a.attrs.size).then_with(by_name),
            Order::Time => time(b).cmp(&time(a)).then_with(by_name),
        };
        if reverse { ordered.reverse() } else { ordered }
    });
}

/// Entries without attributes that an error names.
const UNTOLD_NAMED_MAX: usize = 3;

/// How entries are shown.
#[derive(Clone, Copy)]
struct Shown {
    /// With attributes.
    long: bool,
    /// Sizes for people.
    human: bool,
    /// Names as a terminal may show them.
    quoted: bool,
}

fn line(out: &mut impl Write, attrs: &Attrs, name: &[u8], how: Shown) -> Result<(), OutputError> {
    if how.long && attrs.rdattr_error.is_some_and(|status| status != NfsStat::OK) {
        let unknown = "?";
        write!(
            out,
            "?????????? {unknown:>3} {unknown:<8} {unknown:<8} {unknown:>14} {unknown:<20} "
        )?;
    } else if how.long {
        write!(
            out,
            "{} {:>3} {:<8} {:<8} {:>14} {} ",
            mode_text(attrs),
            attrs.numlinks.unwrap_or(1),
            owner_text(attrs.owner.as_ref()),
            owner_text(attrs.owner_group.as_ref()),
            human::size(attrs.size.unwrap_or(0), how.human),
            time_text(attrs.time_modify),
        )?;
    }
    match how.quoted {
        true => out.write_all(quoted(name).as_bytes())?,
        false => out.write_all(name)?,
    }
    Ok(out.write_all(b"\n")?)
}

/// An owner as the server spells it.
pub(super) fn owner_text(owner: Option<&Opaque>) -> String {
    owner.map_or_else(|| "?".into(), |o| String::from_utf8_lossy(&o.0).into_owned())
}

/// The type's letter and the permission letters, as `ls -l` has them.
pub(super) fn mode_text(attrs: &Attrs) -> String {
    let mode = attrs.mode.unwrap_or(0);
    let mut text = String::from(match attrs.file_type {
        Some(FileType::DIR) => "d",
        Some(FileType::LNK) => "l",
        Some(FileType::BLK) => "b",
        Some(FileType::CHR) => "c",
        Some(FileType::SOCK) => "s",
        Some(FileType::FIFO) => "p",
        _ => "-",
    });
    for (shift, special, letters) in [(6, 0o4000, "sS"), (3, 0o2000, "sS"), (0, 0o1000, "tT")] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        let execute = bits & 1 != 0;
        let mut letters = letters.chars();
        let (with, without) = (letters.next().unwrap_or('s'), letters.next().unwrap_or('S'));
        text.push(match (mode & special != 0, execute) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A time in UTC: 2026-11-20T23:42:05Z.
pub(super) fn time_text(time: Option<NfsTime>) -> String {
    let Some(time) = time else { return "-".into() };
    let (days, seconds) = (time.seconds.div_euclid(86_400), time.seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// Days since 1970 as a date of the Gregorian calendar, whose leap years repeat every 400 years
/// of 146,097 days. Years begin in March here, so that a leap day ends its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097;
    let days = days.saturating_add(719_468); // from 1 March of year 0
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (ERA_DAYS - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dates around leap days, centuries and the epoch, as `date -u` has them.
    #[test]
    fn dates() {
        let text = |seconds| time_text(Some(NfsTime { seconds, nseconds: 0 }));
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(text(1_795_217_325), "2026-11-20T23:28:45Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    /// An entry that the server tells nothing of is there, with question marks, and in its columns.
    #[test]
    fn untold_entries() {
        let text = |status, long| {
            let mut out = Vec::new();
            let attrs = Attrs { rdattr_error: Some(status), ..Attrs::default() };
            line(&mut out, &attrs, b"name", Shown { long, human: false, quoted: false }).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (untold, told) = (text(NfsStat::DELAY, true), text(NfsStat::OK, true));
        assert!(untold.starts_with("??????????   ? ?        ?  "), "{untold}");
        assert!(untold.ends_with(" name\n") && told.ends_with(" name\n"));
        assert!(!told.contains("??"), "{told}");
        assert_eq!(text(NfsStat::DELAY, false), "name\n");
    }

    /// Permission letters, special bits with and without execute.
    #[test]
    fn modes() {
        let text = |kind, mode| {
            mode_text(&Attrs { file_type: Some(kind), mode: Some(mode), ..Attrs::default() })
        };
        assert_eq!(text(FileType::REG, 0o644), "-rw-r--r--");
        assert_eq!(text(FileType::DIR, 0o1777), "drwxrwxrwt");
        assert_eq!(text(FileType::REG, 0o6750), "-rwsr-s---");
        assert_eq!(text(FileType::REG, 0o5640), "-rwSr----T");
    }
}
