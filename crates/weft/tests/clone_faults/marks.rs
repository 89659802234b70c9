//! Files each word of which tells whose it is and where it belongs, so that a foreign one is known.

/// Bytes of a word.
pub const WORD: u64 = 8;
/// Bits of a word that tell its place; the others tell its file.
const PLACE_BITS: u32 = 40;

/// What a file holds: words, those of a hole being 0.
pub type Words = Vec<u64>;

/// The words of a file that nobody else has the number of; `bytes` is a multiple of a word.
pub fn marked(file: u64, bytes: u64) -> Words {
    assert!(file > 0 && bytes.is_multiple_of(WORD), "{file}, {bytes} bytes");
    (0..bytes / WORD).map(|place| file << PLACE_BITS | place).collect()
}

pub fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn from_bytes(name: &str, bytes: &[u8]) -> Words {
    let (words, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "{name} has {} bytes", bytes.len());
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// A word as whoever looks for a mistake reads it.
pub fn told(word: u64) -> String {
    match word {
        0 => "a hole".to_owned(),
        _ => {
            let place = word & ((1 << PLACE_BITS) - 1);
            format!("byte {:#x} of {}", place * WORD, word >> PLACE_BITS)
        }
    }
}

/// Panics unless these are the words of a file that a change made of `before`, or has begun to make
/// of it: `after` is what it is when all is done.
pub fn explained(name: &str, before: &[u64], after: &[u64], seen: &[u64], log: &str) {
    let sizes = before.len().min(after.len())..=before.len().max(after.len());
    assert!(sizes.contains(&seen.len()), "{name} has {} words, not {sizes:?}; {log}", seen.len());
    let at = |words: &[u64], place| words.get(place).copied().unwrap_or(0);
    let strange = (0..seen.len()).find(|place| {
        let may = [at(before, *place), at(after, *place)];
        !may.contains(&seen[*place])
    });
    let Some(place) = strange else { return };
    let (was, becomes) = (told(at(before, place)), told(at(after, place)));
    panic!(
        "byte {:#x} of {name} is {}, was {was}, becomes {becomes}; {log}",
        place as u64 * WORD,
        told(seen[place]),
    );
}
