//! The write verifier of a data server, kept while no unstable byte is lost (RFC 8881 §18.32.3).
//!
//! A verifier tells clients what to send again, nothing else. The page cache outlives
//! the process, so a new process keeps the verifier if it can prove that nothing was lost: the same
//! boot of the machine, the same mount of the file system, and a `syncfs` that succeeds. A client
//! that is told another verifier writes its pages again, with Linux after `close` has returned,
//! over what others have written since.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{AtFlags, StatxFlags, statx, syncfs};
use weft_io::durable;

use super::{ObjectError, error::io};
use crate::sync::lock;

/// File in the directory of the data server.
pub(super) const VERIFIER_FILE: &str = "verifier";
/// Its permission bits.
const FILE_MODE: u32 = 0o600;
/// Its first line.
const TITLE: &str = "weft write verifier 1";
/// Where Linux tells the number of this boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// `STATX_MNT_ID_UNIQUE` (statx(2), Linux 6.8): the number of a mount, which no later one gets.
const MOUNT_ID_UNIQUE: u32 = 0x4000;

/// Devices whose `syncfs` failed in this process. The kernel tells such an error once: another data
/// server of this process on the same file system would not hear of it.
static FAILED_DEVICES: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());

/// A write verifier and the file that hands it to the next process.
#[derive(Debug)]
pub(super) struct KeptVerifier {
    now: AtomicU64,
    /// Held while the verifier and its file change, so that the two agree.
    changing: Mutex<()>,
    path: PathBuf,
    /// None where the kernel cannot tell two mounts apart: each process has a new verifier.
    era: Option<String>,
}

impl KeptVerifier {
    /// The verifier of the last process, if nothing that process accepted can be lost, else a new
    /// random one. Waits until the file system of `root` is synced.
    ///
    /// # Errors
    /// [`ObjectError::NoRandom`]; [`ObjectError::Io`] if the file system tells nothing of itself.
    pub(super) fn open(root: &Path) -> Result<Self, ObjectError> {
        let path = root.join(VERIFIER_FILE);
        let directory = File::open(root).map_err(io("open the store's directory"))?;
        let (era, device) = era(&directory).map_err(io("ask for the mount of the store"))?;
        let last = era.as_deref().and_then(|era| last_of(&path, era));
        let kept = last.filter(|_| all_synced(&directory, device));
        let verifier = KeptVerifier { now: AtomicU64::new(0), changing: Mutex::new(()), path, era };
        match kept {
            Some(kept) => verifier.now.store(kept, Ordering::Release),
            None => verifier.set(random_verifier(last)?),
        }
        Ok(verifier)
    }

    /// The verifier now.
    pub(super) fn get(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// Takes another verifier, since bytes that were accepted may be lost.
    pub(super) fn change(&self) {
        let _alone = lock(&self.changing);
        let old = self.get();
        // Without random numbers, the next number still differs, which is what counts.
        self.set(random_verifier(Some(old)).unwrap_or(old.wrapping_add(1)));
    }

    /// Stores a verifier. The file of the former one goes first: if no other can be written (the
    /// disk fails), the next process finds none and takes a new one.
    fn set(&self, new: u64) {
        self.now.store(new, Ordering::Release);
        let removed = match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        let Some(era) = &self.era else { return };
        let fill = |file: &mut File| {
            let own = own_line(file)?.ok_or(ErrorKind::Unsupported)?;
            writeln!(file, "{era}{own}verifier {new:016x}")
        };
        let kept = durable::replace_file(&self.path, FILE_MODE, fill).map(drop);
        if let Err(error) = removed.and(kept) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "the write verifier cannot be kept for the next start");
        }
    }
}

/// The verifier that the file has, if it is of this era and was not copied from elsewhere: a
/// directory that was restored lacks what was written after its copy was made.
fn last_of(path: &Path, era: &str) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let own = own_line(&file).ok()??;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let rest = text.strip_prefix(era)?.strip_prefix(own.as_str())?;
    let digits = rest.strip_prefix("verifier ")?.strip_suffix('\n')?;
    if digits.len() == 16 { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// The line of a file that names the file itself: number and time of birth of its inode. A copy has
/// another one, also if it got the number of a file that was removed. None where the file system
/// does not tell the time.
fn own_line(file: &File) -> io::Result<Option<String>> {
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
    let (inode, born) = (told.stx_ino, told.stx_btime);
    let is_told = told.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(is_told.then(|| format!("inode {inode} born {}.{:09}\n", born.tv_sec, born.tv_nsec)))
}

/// Boot and mount of a directory, as the first lines of the file; and the device. None for a kernel
/// that does not tell mounts apart.
fn era(directory: &File) -> io::Result<(Option<String>, (u32, u32))> {
    let flags = StatxFlags::from_bits_retain(MOUNT_ID_UNIQUE);
    let told = statx(directory, c"", AtFlags::EMPTY_PATH, flags)?;
    let device = (told.stx_dev_major, told.stx_dev_minor);
    if told.stx_mask & MOUNT_ID_UNIQUE == 0 {
        return Ok((None, device));
    }
    let Ok(boot) = fs::read_to_string(BOOT_ID) else { return Ok((None, device)) };
    let (mount, (major, minor)) = (told.stx_mnt_id, device);
    let boot = boot.trim();
    Ok((Some(format!("{TITLE}\nboot {boot}\nmount {mount}\ndevice {major}:{minor}\n")), device))
}

/// True if all that was written to the file system is on the disk, as far as the kernel tells.
fn all_synced(directory: &File, device: (u32, u32)) -> bool {
    let mut failed = lock(&FAILED_DEVICES);
    if failed.contains(&device) {
        return false;
    }
    match syncfs(directory) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, "unstable writes may be lost; the write verifier changes");
            failed.push(device);
            false
        }
    }
}

/// A random verifier that is not `old`.
fn random_verifier(old: Option<u64>) -> Result<u64, ObjectError> {
    let new = getrandom::u64().map_err(|_| ObjectError::NoRandom)?;
    Ok(if Some(new) == old { new.wrapping_add(1) } else { new })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of files are as exact as the kernel's ticks: 10 ms at the most.
    const CLOCK_TICK: std::time::Duration = std::time::Duration::from_millis(20);

    /// The next process keeps the verifier; one of another boot or mount, a damaged one, and one
    /// after lost bytes are not kept.
    #[test]
    fn a_verifier_outlives_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(VERIFIER_FILE);
        let first = KeptVerifier::open(dir.path()).unwrap();
        assert!(first.era.is_some(), "this kernel tells mounts apart");
        let told = first.get();
        assert_eq!(KeptVerifier::open(dir.path()).unwrap().get(), told);
        first.change();
        assert_ne!(first.get(), told);
        assert_eq!(KeptVerifier::open(dir.path()).unwrap().get(), first.get());
        let good = fs::read_to_string(&path).unwrap();
        let line = |name: &str| good.lines().find(|line| line.starts_with(name)).unwrap();
        for other in [
            good.replace(line("boot"), "boot 00000000-0000-0000-0000-000000000000"),
            good.replace(line("mount"), "mount 1"),
            good.replace(line("device"), "device 0:0"),
            good.trim_end().to_owned(),
            good[..good.len() - 4].to_owned() + "\n",
            String::new(),
            good.clone(),
        ] {
            // A copy may have the number of the inode, and is made later.
            fs::remove_file(&path).unwrap();
            std::thread::sleep(CLOCK_TICK);
            fs::write(&path, &other).unwrap();
            let next = KeptVerifier::open(dir.path()).unwrap();
            assert_ne!(next.get(), first.get(), "{other:?}");
            assert_eq!(KeptVerifier::open(dir.path()).unwrap().get(), next.get());
        }
    }
}
