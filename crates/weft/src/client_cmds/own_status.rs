//! What the kernel tells of this process that no system call tells alone.

/// A field of `/proc/self/status`, a number in this base; none if it is not told.
pub(super) fn field(name: &str, base: u32) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let (_, value) = status.lines().filter_map(|l| l.split_once(':')).find(|(n, _)| *n == name)?;
    u64::from_str_radix(value.trim(), base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that each process has, and one that none has.
    #[test]
    fn fields() {
        assert_eq!(field("Pid", 10), Some(std::process::id().into()));
        assert!(field("Umask", 8).is_some_and(|umask| umask <= 0o777));
        assert!(field("SigIgn", 16).is_some());
        assert_eq!((field("NoSuchField", 10), field("Name", 10)), (None, None));
    }
}
