//! How much memory the state of clients may take where nothing is configured: a part of what the
//! machine has.

const MIB: u64 = 1 << 20;
/// What a machine is taken to have that does not tell.
const UNKNOWN_BYTES: u64 = 4096 * MIB;

/// Memory of this machine, bytes. A limit of a container is not seen.
pub(crate) fn memory_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    total_of(&info).unwrap_or(UNKNOWN_BYTES)
}

/// `MemTotal` of `/proc/meminfo` (proc(5)), in bytes.
fn total_of(info: &str) -> Option<u64> {
    let kib = info.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next())?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// For a metadata server: a sixteenth, 64 MiB to 4 GiB.
pub(crate) fn state_memory_of_mds() -> u64 {
    of_mds(memory_bytes())
}

fn of_mds(total: u64) -> u64 {
    (total / 16).clamp(64 * MIB, 4096 * MIB)
}

/// For each of some data servers in one process, which keep sessions only: together what a metadata
/// server has for those, 64 MiB at least each: room for thousands of clients.
pub(crate) fn state_memory_of_ds(neighbours: usize) -> u64 {
    of_ds(memory_bytes(), neighbours)
}

fn of_ds(total: u64, neighbours: usize) -> u64 {
    (of_mds(total) / 4 / (neighbours as u64).max(1)).max(64 * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * MIB;

    /// What a machine says, and what it cannot say.
    #[test]
    fn totals() {
        assert_eq!(total_of("MemTotal:        8388608 kB\nMemFree: 1 kB\n"), Some(8 * GIB));
        assert_eq!((total_of(""), total_of("MemTotal: much kB")), (None, None));
        assert!(memory_bytes() > 64 * MIB);
    }

    /// Both ends of each default.
    #[test]
    fn parts() {
        assert_eq!([GIB / 2, 4 * GIB, 256 * GIB].map(of_mds), [64 * MIB, 256 * MIB, 4 * GIB]);
        assert_eq!(
            [(16, 1), (16, 4), (1, 4), (256, 1)].map(|(g, n)| of_ds(g * GIB, n) / MIB),
            [256, 64, 64, 1024]
        );
    }
}
