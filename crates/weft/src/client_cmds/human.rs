//! Sizes for people: `-h`.

/// Bytes in the largest unit that is not too large for them, as `ls -h` has it: rounded up, with
/// one digit behind the point below ten.
pub(super) fn size(bytes: u64, human: bool) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if !human || bytes < 1024 {
        return bytes.to_string();
    }
    let (mut unit, mut scale) = (0, 1024_u128);
    while u128::from(bytes) > 1023 * scale && unit + 1 < UNITS.len() {
        unit += 1;
        scale *= 1024;
    }
    let tenths = (u128::from(bytes) * 10).div_ceil(scale);
    match tenths {
        0..100 => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => format!("{}{}", u128::from(bytes).div_ceil(scale), UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ls -h` has them.
    #[test]
    fn sizes() {
        for (bytes, shown) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 * 1024, "10K"),
            (10 * 1024 + 1, "11K"),
            (1023 * 1024, "1023K"),
            (1023 * 1024 + 1, "1.0M"),
            (3 << 30, "3.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(size(bytes, true), shown, "{bytes}");
        }
        assert_eq!(size(123_456, false), "123456");
    }
}
