//! What tells a retry of a request from another request.

use weft_xdr::Reader;

/// Of a larger request, this many bytes at either end are part of the fingerprint.
const DIGEST_PART_BYTES: usize = 2048;

/// A fingerprint of the request: the same slot and sequence id with another request is a false
/// retry (RFC 8881 §2.10.6.1.3.1). It covers the length and every byte but the inside of a large
/// request, which is a payload.
pub(super) fn digest(args: &Reader) -> u64 {
    let all = args.clone().rest();
    let start = mixed(0xcbf2_9ce4_8422_2325, all.len() as u64);
    let digest = if all.len() <= 2 * DIGEST_PART_BYTES {
        folded(start, &all)
    } else {
        let (head, _) = all.split_at(DIGEST_PART_BYTES);
        let (_, tail) = all.split_at(all.len() - DIGEST_PART_BYTES);
        folded(folded(start, head), tail)
    };
    // 0 would mean that it is not known.
    digest.max(1)
}

/// FNV-1a by words of eight bytes: a client has nothing to gain by collisions with itself, and
/// this takes a quarter of a nanosecond a byte. Every step is reversible, so that requests that
/// differ in one word never collide.
fn folded(digest: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let digest = words
        .by_ref()
        .fold(digest, |h, word| word.try_into().map_or(h, |w| mixed(h, u64::from_be_bytes(w))));
    words.remainder().iter().fold(digest, |h, byte| mixed(h, u64::from(*byte)))
}

fn mixed(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        digest(&Reader::new(Bytes::copy_from_slice(bytes)))
    }

    /// Any byte of a small request counts, and both ends and the length of a large one.
    #[test]
    fn digests_tell_requests_apart() {
        for len in [1, 100, 2 * DIGEST_PART_BYTES, 2 * DIGEST_PART_BYTES + 1, 100_000] {
            let whole = vec![7; len];
            assert_eq!(of(&whole), of(&whole));
            assert_ne!(of(&whole), of(&whole[1..]));
            let ends = (0..len).filter(|at| (*at).min(len - 1 - at) < DIGEST_PART_BYTES);
            for at in ends.step_by(61).chain([len - 1]) {
                let mut other = whole.clone();
                other[at] ^= 1;
                assert_ne!(of(&whole), of(&other), "byte {at} of {len}");
            }
        }
    }
}
