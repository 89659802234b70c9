//! `weft ls`, and how attributes are shown.

use std::{
    ffi::OsStr,
    io::{BufWriter, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use weft_client::fs::Client;
use weft_nfs::{Attrs, FileType, NfsStat, NfsTime, Opaque};

use crate::outcome::{Outcome, OutputError};

/// Lists a directory in the server's order, or names a file. Output is written as it comes:
/// directories of any size need no more memory than a page. Attributes come with the names (P3.5),
/// or `one_by_one`. An entry that the server tells nothing of is shown with `?`, and is an error at
/// the end.
pub(super) async fn ls(client: &Client, path: &Path, long: bool, one_by_one: bool) -> Outcome {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let attrs = client.stat(path).await?;
    let is_dir = match attrs.file_type {
        Some(FileType::LNK) => client
            .stat_followed(path)
            .await
            .is_ok_and(|target| target.file_type == Some(FileType::DIR)),
        kind => kind == Some(FileType::DIR),
    };
    if !is_dir {
        let name = path.file_name().unwrap_or(path.as_os_str());
        line(&mut out, &attrs, name.as_encoded_bytes(), long)?;
        return Ok(out.flush().map_err(OutputError::from)?);
    }
    let mut entries = match one_by_one {
        true => client.read_names(path).await?,
        false => client.read_dir(path).await?,
    };
    let mut untold: Vec<String> = Vec::new();
    while let Some(mut entry) = entries.next().await? {
        if let Some(why) = entry.attrs.rdattr_error.filter(|s| *s != NfsStat::OK) {
            untold.push(format!("{} ({why})", String::from_utf8_lossy(&entry.name.0)));
        }
        if long && one_by_one {
            entry.attrs = client.stat(path.join(OsStr::from_bytes(&entry.name.0))).await?;
        }
        line(&mut out, &entry.attrs, &entry.name.0, long)?;
    }
    out.flush().map_err(OutputError::from)?;
    if !long || untold.is_empty() {
        return Ok(());
    }
    let (some, more) = untold.split_at(untold.len().min(UNTOLD_NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Err(format!(
        "{}: the server cannot tell the attributes of {}{more} now; `weft status` says which \
         servers are away",
        path.display(),
        some.join(", ")
    )
    .into())
}

/// Entries without attributes that an error names.
const UNTOLD_NAMED_MAX: usize = 3;

fn line(out: &mut impl Write, attrs: &Attrs, name: &[u8], long: bool) -> Result<(), OutputError> {
    if long && attrs.rdattr_error.is_some_and(|status| status != NfsStat::OK) {
        let unknown = "?";
        write!(
            out,
            "?????????? {unknown:>3} {unknown:<8} {unknown:<8} {unknown:>14} {unknown:<20} "
        )?;
    } else if long {
        write!(
            out,
            "{} {:>3} {:<8} {:<8} {:>14} {} ",
            mode_text(attrs),
            attrs.numlinks.unwrap_or(1),
            owner_text(attrs.owner.as_ref()),
            owner_text(attrs.owner_group.as_ref()),
            attrs.size.unwrap_or(0),
            time_text(attrs.time_modify),
        )?;
    }
    out.write_all(name)?;
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
            line(&mut out, &attrs, b"name", long).unwrap();
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
