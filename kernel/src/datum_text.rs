//! Dates and times as SQL prints them, as `tidegate/changefeed/text/datum_text.py` does.

use crate::number_text::{decimal, padded};

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Days that are printed here. Infinite dates and years before 1 are Python's.
const DAYS_MAX: i64 = 3_000_000;
const MICROS_MAX: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar.
fn civil_date(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month as u32, day as u32)
}

fn two(out: &mut Vec<u8>, number: u32) {
    out.push(b'0' + (number / 10) as u8);
    out.push(b'0' + (number % 10) as u8);
}

fn day_text(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_date(days);
    if year < 0 {
        out.push(b'-');
    }
    padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    two(out, month);
    out.push(b'-');
    two(out, day);
}

fn clock_text(out: &mut Vec<u8>, seconds: u32) {
    two(out, seconds / 3600);
    out.push(b':');
    two(out, seconds / 60 % 60);
    out.push(b':');
    two(out, seconds % 60);
}

fn fraction_text(out: &mut Vec<u8>, fraction: u64, digits: usize) {
    if fraction != 0 {
        out.push(b'.');
        padded(out, fraction, digits);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

pub fn date_text(out: &mut Vec<u8>, days: i64) -> Option<()> {
    if !(-DAYS_MAX..=DAYS_MAX).contains(&days) || civil_date(days).0 <= 0 {
        return None;
    }
    day_text(out, days);
    Some(())
}

pub fn time_text(out: &mut Vec<u8>, micros: i64) -> Option<()> {
    if !(0..=MICROS_MAX).contains(&micros) {
        return None;
    }
    clock_text(out, (micros / MICROS_PER_SECOND) as u32);
    fraction_text(out, (micros % MICROS_PER_SECOND) as u64, 6);
    Some(())
}

pub fn timestamp_text(out: &mut Vec<u8>, seconds: i64, nanos: u32) {
    day_text(out, seconds.div_euclid(SECONDS_PER_DAY));
    out.push(b'T');
    clock_text(out, seconds.rem_euclid(SECONDS_PER_DAY) as u32);
    fraction_text(out, u64::from(nanos), 9);
}

/// A timestamp of the hybrid logical clock, as `tidegate/hlc.py` prints it.
pub fn hlc_text(out: &mut Vec<u8>, wall: i64, logical: i64) {
    decimal(out, wall);
    out.push(b'.');
    padded(out, logical.unsigned_abs(), 10);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(print: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = vec![];
        print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_drop_trailing_zeros() {
        assert_eq!(text(|out| timestamp_text(out, 1_743_530_146, 812_942_000)), "2025-04-01T17:55:46.812942");
        assert_eq!(text(|out| timestamp_text(out, -1, 0)), "1969-12-31T23:59:59");
        assert_eq!(text(|out| timestamp_text(out, -62_198_755_200, 0)), "-0001-01-01T00:00:00");
    }

    #[test]
    fn days_and_times() {
        assert_eq!(text(|out| date_text(out, 17_898).unwrap()), "2019-01-02");
        assert_eq!(text(|out| time_text(out, 11_045_600_000).unwrap()), "03:04:05.6");
        assert_eq!(text(|out| time_text(out, MICROS_MAX).unwrap()), "24:00:00");
        assert_eq!(text(|out| hlc_text(out, 1, 2)), "1.0000000002");
    }

    #[test]
    fn days_before_year_one_and_infinite_ones_are_refused() {
        for days in [-719_529, i64::MAX, i64::MIN] {
            assert_eq!(date_text(&mut vec![], days), None);
        }
        assert_eq!(time_text(&mut vec![], -1), None);
    }
}
