//! Which machine a data server runs on, so that its disk can be told from another machine's.

use std::fs;

use weft_server::clock::random;

/// What Linux calls this start of the machine. A name of its own where the system does not tell:
/// then no disk is taken for another's.
pub(super) fn machine() -> [u8; 16] {
    let told = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    told.and_then(|text| parsed(&text)).unwrap_or_else(random)
}

fn parsed(uuid: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(&uuid.trim().replace('-', ""), 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_at_every_look() {
        assert_eq!(machine(), machine());
        let written = "00010203-0405-0607-0809-0a0b0c0d0e0f\n";
        assert_eq!(parsed(written), Some(std::array::from_fn(|i| i as u8)));
        assert_eq!(parsed("none"), None);
    }
}
