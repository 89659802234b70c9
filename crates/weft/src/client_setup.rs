//! `weft client-setup`: a machine that mounts the file system with its own kernel reads ahead over
//! all data servers. Linux reads 128 KiB ahead of whoever reads a file from one end to the other,
//! less than a stripe unit: then one data server works at a time. A server cannot change that.

use std::{fs, io, io::Write, path::Path};

use clap::Args;
use weft::size::size_of_words;
use weft_io::durable;

use crate::outcome::{Outcome, OutputError};

/// What `nfsrahead` of nfs-utils (2.6.2 and later) reads, whom udev asks for each new mount.
const CONFIG: &str = "/etc/nfs.conf.d/weft.conf";
/// Everybody may read it, as the files beside it.
const CONFIG_MODE: u32 = 0o644;
/// Where distributions have it.
const NFSRAHEAD: [&str; 2] = ["/usr/libexec/nfsrahead", "/usr/lib/nfs-utils/nfsrahead"];
/// Most that anybody has the memory for, bytes.
const READ_AHEAD_MAX: u64 = 1 << 30;

/// Options of `weft client-setup`.
#[derive(Debug, Args)]
pub struct ClientSetupArgs {
    /// How far ahead the kernel reads, for whoever reads from one end to the other: bytes, or with
    /// a unit, as 15MiB; up to 1GiB. It takes so much memory for each file that is read so.
    #[arg(long, value_name = "SIZE", default_value = "15MiB")]
    read_ahead: String,
}

/// A file system that is mounted by NFSv4.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// Its device number, as `/sys` has it.
    device: String,
    at: String,
}

/// Changes what is mounted now, and what will be.
pub fn run(args: &ClientSetupArgs) -> Outcome {
    let kib = read_ahead_of(&args.read_ahead)? / 1024;
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo")?);
    let mut told = Vec::new();
    for mount in &mounts {
        told.push(set(mount, kib)?);
    }
    let lasts = NFSRAHEAD.iter().any(|program| Path::new(program).exists());
    if lasts {
        replace(Path::new(CONFIG), &config(kib))?;
        told.push(format!("What is mounted by NFSv4 from now on: {kib} KiB ahead ({CONFIG})."));
    }
    let mut out = io::stdout();
    told.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(OutputError::from)?;
    if lasts {
        return Ok(());
    }
    let why = "it does not last: this machine has no nfsrahead, which nfs-utils 2.6.2 and later \
               has; until then run this after each mount";
    Err(why.into())
}

fn read_ahead_of(text: &str) -> Result<u64, String> {
    let no_size = || format!("{text}: not a size; write bytes, or a number with KiB or MiB");
    match size_of_words(text).ok_or_else(no_size)? {
        bytes if bytes <= READ_AHEAD_MAX => Ok(bytes),
        _ => Err(format!("{text}: too large; at most 1GiB is read ahead")),
    }
}

/// What is mounted by NFSv4, in the form of `/proc/self/mountinfo`; each device once.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, filesystem)) = line.split_once(" - ") else { continue };
        let mut words = mount.split(' ');
        let (Some(device), Some(at)) = (words.nth(2), words.nth(1)) else { continue };
        let is_new = !found.iter().any(|known| known.device == device);
        if filesystem.split(' ').next() == Some("nfs4") && is_new {
            found.push(Mount { device: device.into(), at: at.into() });
        }
    }
    found
}

/// Sets how far ahead the kernel reads of a mount; what it did, in words.
fn set(mount: &Mount, kib: u64) -> Result<String, String> {
    let path = format!("/sys/class/bdi/{}/read_ahead_kb", mount.device);
    let failed = |e| failed(Path::new(&path), &e);
    let before = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, kib.to_string()).map_err(failed)?;
    Ok(format!("{}: {kib} KiB ahead ({} before).", mount.at, before.trim()))
}

fn config(kib: u64) -> String {
    let head = "# By weft client-setup. To undo it, remove this file and mount again.";
    format!("{head}\n\n[nfsrahead]\nnfs4={kib}\n")
}

/// Replaces a file at once, and makes its directory.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let written = || {
        path.parent().map_or(Ok(()), durable::create_dir_all)?;
        durable::replace_file(path, CONFIG_MODE, |file| file.write_all(text.as_bytes())).map(drop)
    };
    written().map_err(|e: io::Error| failed(path, &e))
}

fn failed(path: &Path, e: &io::Error) -> String {
    let hint = if e.kind() == io::ErrorKind::PermissionDenied { "; run it as root" } else { "" };
    format!("{}: {e}{hint}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NFSv4 mounts alone, each file system once, whatever else a line has.
    #[test]
    fn mounts_are_found() {
        let mountinfo = "\
            22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            40 22 0:52 / /mnt rw,relatime shared:200 master:3 - nfs4 10.0.0.1:/ rw,vers=4.2\n\
            41 22 0:52 /home /home rw - nfs4 10.0.0.1:/ rw,vers=4.2\n\
            42 22 0:53 / /old rw - nfs 10.0.0.2:/ rw,vers=3\n\
            43 22 0:54 / /a\\040b rw - nfs4 10.0.0.1:/x rw\n\
            a line that is cut";
        let mount = |device: &str, at: &str| Mount { device: device.into(), at: at.into() };
        assert_eq!(mounts(mountinfo), [mount("0:52", "/mnt"), mount("0:54", "/a\\040b")]);
    }

    /// Sizes as people write them, and what is wrong with others.
    #[test]
    fn sizes() {
        for (text, bytes) in [("15MiB", 15 << 20), ("131072", 131_072), ("1GiB", 1 << 30)] {
            assert_eq!(read_ahead_of(text), Ok(bytes));
        }
        for (text, why) in [("2GiB", "2GiB: too large"), ("far", "far: not a size")] {
            assert!(read_ahead_of(text).is_err_and(|e| e.starts_with(why)), "{text}");
        }
    }

    /// The file is replaced whole, and again.
    #[test]
    fn files_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nfs.conf.d/weft.conf");
        for kib in [15_360, 128] {
            replace(&path, &config(kib)).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with(&format!("\n[nfsrahead]\nnfs4={kib}\n")), "{text}");
        }
        assert_eq!(fs::read_dir(dir.path().join("nfs.conf.d")).unwrap().count(), 1);
    }
}
