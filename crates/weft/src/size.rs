//! Sizes as people write them, in configuration files and in requests of administrators.

use serde::{Deserialize, Deserializer, de::Error as _};
use weft_store::volume::STUFFED_BYTES_MAX;

const MIB: u64 = 1 << 20;
/// Least and most memory for the state of clients, bytes.
const STATE_MEMORY_MIN: u64 = 16 * MIB;
const STATE_MEMORY_MAX: u64 = 1024 << 30;

/// Bytes as a number or in words: 1048576, "1MiB"; `None` for words that are no size.
///
/// # Errors
/// It is neither a number nor a text.
pub(crate) fn size<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a size: a number of bytes, or \"4MiB\"")]
    enum Size {
        Bytes(u64),
        Words(String),
    }
    Ok(match Size::deserialize(d)? {
        Size::Bytes(bytes) => Some(bytes),
        Size::Words(words) => size_of_words(&words),
    })
}

/// A threshold or limit of small files: at most [`STUFFED_BYTES_MAX`].
///
/// # Errors
/// It is no such size.
pub(crate) fn small_size<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    let bytes = size(d)?.filter(|b| *b <= STUFFED_BYTES_MAX);
    bytes.ok_or_else(|| D::Error::custom("not a size from 0 to 1MiB"))
}

/// Disk space that is kept: any size.
///
/// # Errors
/// It is no size.
pub(crate) fn reserve<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    size(d)?.ok_or_else(|| D::Error::custom("not a size, such as \"256MiB\""))
}

/// Memory for the state of clients: a server with less could not serve a few.
///
/// # Errors
/// It is no such size.
pub(crate) fn state_memory<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    let bytes = size(d)?.filter(|b| (STATE_MEMORY_MIN..=STATE_MEMORY_MAX).contains(b));
    let bytes = bytes.and_then(|b| usize::try_from(b).ok());
    bytes.map(Some).ok_or_else(|| D::Error::custom("not a size from 16MiB to 1024GiB"))
}

/// A number and a unit: "4MiB", "4 MiB", "4M", "4096". Units are powers of 1024.
pub fn size_of_words(words: &str) -> Option<u64> {
    let digits = words.len() - words.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = words.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => MIB,
        "G" | "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
