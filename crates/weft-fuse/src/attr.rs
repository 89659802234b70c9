//! Attributes as the kernel has them, and as the protocol has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType as Kind, INodeNo, TimeOrNow};
use weft_nfs::{
    Attrs, FileType, NfsTime, Opaque,
    attr::{SetTime, numeric_owner},
};

/// Who owns what nobody here is called like.
const NOBODY: u32 = 65534;
/// What programs are told to read and write at a time: a READ of ours.
const BLOCK_BYTES: u32 = 1 << 20;
/// `st_blocks` counts in these.
const SECTOR_BYTES: u64 = 512;

/// What `stat` shows.
pub fn file_attr(ino: u64, attrs: &Attrs) -> FileAttr {
    let size = attrs.size.unwrap_or(0);
    let time = |time: Option<NfsTime>| time.map_or(UNIX_EPOCH, system_time);
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: attrs.space_used.unwrap_or(size).div_ceil(SECTOR_BYTES),
        atime: time(attrs.time_access),
        mtime: time(attrs.time_modify),
        ctime: time(attrs.time_metadata),
        crtime: UNIX_EPOCH,
        kind: attrs.file_type.map_or(Kind::RegularFile, kind_of),
        perm: (attrs.mode.unwrap_or(0) & 0o7777) as u16,
        nlink: attrs.numlinks.unwrap_or(1),
        uid: attrs.owner.as_ref().map_or(NOBODY, user_of),
        gid: attrs.owner_group.as_ref().map_or(NOBODY, group_of),
        rdev: attrs.rawdev.map_or(0, |device| encode_device(device.major, device.minor)),
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The kernel's word for a type.
pub fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::DIR => Kind::Directory,
        FileType::BLK => Kind::BlockDevice,
        FileType::CHR => Kind::CharDevice,
        FileType::LNK => Kind::Symlink,
        FileType::SOCK => Kind::Socket,
        FileType::FIFO => Kind::NamedPipe,
        _ => Kind::RegularFile,
    }
}

/// `new_encode_dev` of Linux' `include/linux/kdev_t.h`.
fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Major and minor number of a device as FUSE has it: the reverse of [`encode_device`].
pub fn decode_device(rdev: u32) -> (u32, u32) {
    ((rdev & 0xf_ff00) >> 8, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00))
}

fn system_time(time: NfsTime) -> SystemTime {
    let part = Duration::from_nanos(time.nseconds.into());
    let at = match u64::try_from(time.seconds) {
        Ok(seconds) => UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        Err(_) => UNIX_EPOCH.checked_sub(Duration::from_secs(time.seconds.unsigned_abs())),
    };
    at.and_then(|at| at.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

/// A time that a program sets.
pub fn set_time(time: TimeOrNow) -> SetTime {
    let at = match time {
        TimeOrNow::Now => return SetTime::ToServer,
        TimeOrNow::SpecificTime(at) => at,
    };
    let (seconds, nseconds) = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        // The kernel's nanoseconds count forward from a second before 1970; fuser (0.18) has
        // counted them backward from it. It takes ours as they are.
        Err(before) => {
            let before = before.duration();
            (before.as_secs().cast_signed().wrapping_neg(), before.subsec_nanos())
        }
    };
    SetTime::ToClient(NfsTime { seconds, nseconds })
}

/// An owner or group by number, as AUTH_SYS servers take it.
pub fn owner(id: u32) -> Opaque {
    numeric_owner(id)
}

/// A server may tell names, with a domain behind them (RFC 8881 §5.9).
fn name_in(owner: &Opaque) -> Option<&str> {
    let text = std::str::from_utf8(&owner.0).ok()?;
    Some(text.split('@').next().unwrap_or(text))
}

fn user_of(owner: &Opaque) -> u32 {
    let Some(name) = name_in(owner) else { return NOBODY };
    if let Ok(id) = name.parse() {
        return id;
    }
    nix::unistd::User::from_name(name).ok().flatten().map_or(NOBODY, |user| user.uid.as_raw())
}

fn group_of(owner: &Opaque) -> u32 {
    let Some(name) = name_in(owner) else { return NOBODY };
    if let Ok(id) = name.parse() {
        return id;
    }
    nix::unistd::Group::from_name(name).ok().flatten().map_or(NOBODY, |group| group.gid.as_raw())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Times that programs set come from fuser as they are, before 1970 too, and go there as they
    /// are.
    #[test]
    fn times_go_there_and_back() {
        for (seconds, nseconds) in [(0, 0), (5, 7), (-1, 999_999_999), (-5, 0), (-5, 1)] {
            let time = NfsTime { seconds, nseconds };
            let from_zero = Duration::new(seconds.unsigned_abs(), nseconds);
            let by_fuser = match seconds >= 0 {
                true => UNIX_EPOCH + from_zero,
                false => UNIX_EPOCH - from_zero,
            };
            let set = set_time(TimeOrNow::SpecificTime(by_fuser));
            assert_eq!(set, SetTime::ToClient(time));
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let part = Duration::from_nanos(nseconds.into());
            let told = match seconds >= 0 {
                true => UNIX_EPOCH + whole + part,
                false => UNIX_EPOCH - whole + part,
            };
            assert_eq!(system_time(time), told);
        }
        assert_eq!(set_time(TimeOrNow::Now), SetTime::ToServer);
    }

    /// Device numbers go there and back; owners are numbers or names, and nobody if they are none.
    #[test]
    fn devices_and_owners() {
        for (major, minor) in [(8, 1), (259, 70_000), (0xfff, 0xf_ffff)] {
            assert_eq!(decode_device(encode_device(major, minor)), (major, minor));
        }
        let said = |text: &'static str| user_of(&Opaque(Bytes::from_static(text.as_bytes())));
        assert_eq!([said("1000"), said("root@lab"), said("no such user")], [1000, 0, NOBODY]);
    }
}
