//! Abilities of the kernel that FUSE_INIT does not negotiate.

/// First kernel that drops pages of a file after a direct write to them: others may have read those
/// pages while the write was in flight (Linux commit b359af8275a9).
const DROPS_AFTER_WRITES: (u32, u32) = (6, 18);

/// True if this kernel keeps its page cache in step with direct writes.
pub fn drops_after_writes() -> bool {
    let release = rustix::system::uname();
    is_since(&release.release().to_string_lossy(), DROPS_AFTER_WRITES)
}

/// True if a release such as `6.18.44-cloud` is of this version or a later one.
fn is_since(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= version
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        let is_new = |release| is_since(release, (6, 18));
        assert!(["6.18.44-fc-v669", "6.18", "6.20.1", "7.0.0-rc1", "10.1"].into_iter().all(is_new));
        assert!(!["6.9.1", "6.17.9-cloud", "5.30.0", "6", "", "weird"].into_iter().any(is_new));
    }
}
