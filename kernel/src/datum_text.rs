//! Dates and times as SQL prints them, as `tidegate/changefeed/text/datum_text.py` does.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::number_text::{decimal, padded};

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Days that are printed here. Infinite dates and years before 1 are Python's.
const DAYS_MAX: i64 = 3_000_000;
/// Offsets of a time zone that have two digits of hours.
const OFFSET_MAX: u32 = 99 * 3600;
pub const MICROS_MAX: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;

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

/// The day's time, or the hours of an interval.
fn hours_text(out: &mut Vec<u8>, micros: u64) {
    let seconds = micros / MICROS_PER_SECOND as u64;
    padded(out, seconds / 3600, 2);
    out.push(b':');
    two(out, (seconds / 60 % 60) as u32);
    out.push(b':');
    two(out, (seconds % 60) as u32);
    fraction_text(out, micros % MICROS_PER_SECOND as u64, 6);
}

/// A TIMETZ as SQL and JSON have it: minutes and seconds of its offset are left out where it has none.
pub fn sql_timetz_text(out: &mut Vec<u8>, micros: i64, offset: i64) -> Option<()> {
    timetz_text(out, micros, offset)?;
    for _ in 0..2 {
        if out.ends_with(b":00") {
            out.truncate(out.len() - 3);
        }
    }
    Some(())
}

/// A TIMETZ in Avro; its offset counts west of UTC, and its text east.
pub fn timetz_text(out: &mut Vec<u8>, micros: i64, offset: i64) -> Option<()> {
    time_text(out, micros)?;
    let seconds = u32::try_from(offset.unsigned_abs()).ok().filter(|seconds| *seconds <= OFFSET_MAX)?;
    out.push(if offset > 0 { b'-' } else { b'+' });
    clock_text(out, seconds);
    Some(())
}

pub fn interval_text(out: &mut Vec<u8>, months: i64, days: i64, nanos: i64) {
    if (months, days, nanos) == (0, 0, 0) {
        out.extend_from_slice(b"00:00:00");
        return;
    }
    let start = out.len();
    unit_text(out, start, months / 12, b" year", false);
    unit_text(out, start, months % 12, b" mon", false);
    unit_text(out, start, days, b" day", months < 0 && days > 0);
    if nanos != 0 {
        if out.len() > start {
            out.push(b' ');
        }
        let micros = nanos.unsigned_abs() / 1000;
        let before = if days == 0 { months } else { days };
        if nanos < 0 && micros != 0 {
            out.push(b'-');
        } else if before < 0 {
            out.push(b'+');
        }
        hours_text(out, micros);
    }
}

fn unit_text(out: &mut Vec<u8>, start: usize, count: i64, unit: &[u8], plus: bool) {
    if count == 0 {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if plus {
        out.push(b'+');
    }
    decimal(out, count);
    out.extend_from_slice(unit);
    if count != 1 {
        out.push(b's');
    }
}

/// An INTERVAL in ISO 8601, as `tidegate/changefeed/text/interval_text.py` prints it.
pub fn iso_interval(out: &mut Vec<u8>, months: i64, days: i64, nanos: i64) {
    let start = out.len();
    out.push(b'P');
    for (count, unit) in [(months / 12, b'Y'), (months % 12, b'M'), (days, b'D')] {
        if count != 0 {
            decimal(out, count);
            out.push(unit);
        }
    }
    let micros = nanos.unsigned_abs() / 1000;
    if micros != 0 {
        out.push(b'T');
        iso_time(out, micros, nanos < 0);
    }
    if out.len() == start + 1 {
        out.extend_from_slice(b"T0S");
    }
}

fn iso_time(out: &mut Vec<u8>, micros: u64, negative: bool) {
    let sign = |out: &mut Vec<u8>| {
        if negative {
            out.push(b'-');
        }
    };
    let (seconds, fraction) = (micros / MICROS_PER_SECOND as u64, micros % MICROS_PER_SECOND as u64);
    for (count, unit) in [(seconds / 3600, b'H'), (seconds / 60 % 60, b'M')] {
        if count != 0 {
            sign(out);
            padded(out, count, 1);
            out.push(unit);
        }
    }
    if seconds % 60 != 0 || fraction != 0 {
        sign(out);
        padded(out, seconds % 60, 1);
        fraction_text(out, fraction, 6);
        out.push(b'S');
    }
}

/// An INET, without a mask that covers the whole address.
pub fn inet_text(out: &mut Vec<u8>, v6: bool, mask: u8, address: [u8; 16]) {
    let [a, b, c, d, ..] = address;
    let (whole, written) = if v6 {
        (128, write!(out, "{}", Ipv6Addr::from(address)))
    } else {
        (32, write!(out, "{}", Ipv4Addr::new(a, b, c, d)))
    };
    drop(written); // a vector takes all that is written
    if mask != whole {
        out.push(b'/');
        decimal(out, i64::from(mask));
    }
}

/// The first bits of words.
pub fn bits_text(out: &mut Vec<u8>, count: usize, words: &[u8]) {
    out.extend((0..count).map(|at| b'0' + (words[at / 8] >> (7 - at % 8) & 1)));
}

pub fn lsn_text(out: &mut Vec<u8>, lsn: u64) {
    drop(write!(out, "{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff));
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
    fn intervals_and_zones() {
        let interval = |months, days, nanos| text(|out| interval_text(out, months, days, nanos));
        assert_eq!(interval(0, 0, 0), "00:00:00");
        assert_eq!(interval(14, 3, 14_706_500_000_000), "1 year 2 mons 3 days 04:05:06.5");
        assert_eq!(interval(-13, 1, -1_000), "-1 years -1 mons +1 day -00:00:00.000001");
        assert_eq!(interval(0, -1, 999), "-1 days +00:00:00");
        assert_eq!(interval(0, 0, 360_000_000_000_000), "100:00:00");
        let iso = |months, days, nanos| text(|out| iso_interval(out, months, days, nanos));
        assert_eq!(iso(14, 3, 14_706_500_000_000), "P1Y2M3DT4H5M6.5S");
        assert_eq!(iso(-12, 0, -6_000_000), "P-1YT-0.006S");
        assert_eq!((iso(0, 0, 0), iso(0, 0, 999)), ("PT0S".to_string(), "PT0S".to_string()));
        assert_eq!(iso(0, 1, 3_600_000_000_000), "P1DT1H");
        assert_eq!(text(|out| timetz_text(out, 0, -7200).unwrap()), "00:00:00+02:00:00");
        assert_eq!(timetz_text(&mut vec![], 0, i64::MIN), None);
        for (offset, shown) in [(-7200, "+02"), (0, "+00"), (19800, "-05:30"), (1, "-00:00:01")] {
            assert_eq!(text(|out| sql_timetz_text(out, 0, offset).unwrap()), format!("00:00:00{shown}"));
        }
    }

    #[test]
    fn addresses_and_bits() {
        let inet = |v6, mask, address: &[u8]| {
            let mut whole = [0; 16];
            whole[..address.len()].copy_from_slice(address);
            text(|out| inet_text(out, v6, mask, whole))
        };
        assert_eq!(inet(false, 8, &[10, 0, 0, 1]), "10.0.0.1/8");
        assert_eq!(inet(false, 32, &[10, 0, 0, 1]), "10.0.0.1");
        assert_eq!(inet(true, 128, &[0, 1]), "1::");
        assert_eq!(
            inet(true, 64, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4]),
            "::ffff:1.2.3.4/64"
        );
        assert_eq!(text(|out| bits_text(out, 3, &[0xa0, 0, 0, 0, 0, 0, 0, 0])), "101");
    }

    #[test]
    fn days_before_year_one_and_infinite_ones_are_refused() {
        for days in [-719_529, i64::MAX, i64::MIN] {
            assert_eq!(date_text(&mut vec![], days), None);
        }
        assert_eq!(time_text(&mut vec![], -1), None);
    }
}
