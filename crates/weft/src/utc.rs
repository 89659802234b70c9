//! A time as people write it, in UTC.

/// Seconds since 1970 as `2026-11-22 21:04:05 UTC`.
pub fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March, so that the day a leap year has more is the last one; 400 years have
    // 146,097 days, and 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    /// Leap days, ends of years and centuries, and the time before 1970.
    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_164_800, "2024-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), wanted);
        }
    }
}
