//! Datums as Avro with the types of Kafka Connect, as `tidegate/changefeed/encoding/connect/types.py` chooses them and
//! fastavro writes them.

use crate::avro::{array_block, bytes, long, string, unscaled, FIRST, NULL};
use crate::datum::Datum;
use crate::datum_text::{
    bits_text, date_text, inet_text, iso_interval, lsn_text, time_text, timestamp_text, timetz_text,
};
use crate::decimals::Decimal;
use crate::json_text::{hex, uuid_text};
use crate::kind::{Kind, Type};
use crate::number_text::{decimal_text, plain_decimal_text};

const MICROS_PER_SECOND: i128 = 1_000_000;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NARROW_FLOAT: i64 = 32;
/// What a sink takes of times (`connect/datum_values.py`), both bounds excluded, and where years have five digits.
const FIRST_NANOS: i128 = -210_866_803_200_000_000_000;
const LAST_NANOS: i128 = 9_224_318_015_999_999_000_000;
const FIVE_DIGIT_YEARS: i64 = 253_402_300_800;
const NO_OFFSET: &[u8] = b"+00:00:00";
const WHOLE_MINUTES: &[u8] = b":00";

/// Where a datum stands. In keys equal datums have one form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// In a column: a union with null.
    Column,
    /// In a key that may be null: a union too.
    NullableKey,
    /// In a key, where no datum is null: there is no union.
    Key,
}

/// Appends a datum with its branch, if it has one. Refuses what only Python writes, and what has no form.
pub fn datum_connect(
    out: &mut Vec<u8>,
    datum: &Datum,
    of: &Type,
    place: Place,
    scratch: &[u8],
) -> Option<()> {
    match (datum, place) {
        (Datum::Null, Place::Key) => return None,
        (Datum::Null, _) => {
            out.push(NULL);
            return Some(());
        }
        (_, Place::Key) => {}
        _ => out.push(FIRST),
    }
    match *datum {
        Datum::Array(payload, ..) => array(out, payload, of, place),
        _ => column(out, datum, of, place, scratch),
    }
}

/// A datum of a column that is no array, without a branch.
fn column(out: &mut Vec<u8>, datum: &Datum, of: &Type, place: Place, scratch: &[u8]) -> Option<()> {
    match *datum {
        Datum::Decimal(value) if of.precision > 0 => {
            bytes(out, &unscaled(without_zeros_beyond(value, of.scale), of)?);
        }
        Datum::NotFinite(_) if of.precision > 0 => return None,
        Datum::Bytes(data) => bytes(out, data),
        Datum::Int(days) if of.kind == Kind::Date => long(out, i64::from(i32::try_from(days).ok()?)),
        Datum::Int(micros) if of.kind == Kind::Time => long(out, micros),
        Datum::Timestamp(seconds, nanos) if of.kind == Kind::Timestamp => {
            require_finite(seconds, nanos)?;
            let micros = i128::from(seconds) * MICROS_PER_SECOND + i128::from(nanos / 1000);
            long(out, i64::try_from(micros).ok()?);
        }
        _ => either(out, datum, of, place, scratch)?,
    }
    Some(())
}

/// An item of an array, without a branch: text for some types whose columns have another form.
fn item(out: &mut Vec<u8>, datum: &Datum, of: &Type, place: Place) -> Option<()> {
    let mut text = vec![];
    match *datum {
        Datum::Bytes(data) => {
            text.extend_from_slice(b"\\x");
            hex(&mut text, data);
        }
        Datum::Int(days) if of.kind == Kind::Date => date_text(&mut text, days)?,
        Datum::Int(micros) if of.kind == Kind::Time => time_text(&mut text, micros)?,
        Datum::Timestamp(seconds, nanos) if of.kind == Kind::Timestamp => {
            timestamp_text(&mut text, seconds, nanos);
        }
        _ => return either(out, datum, of, place, &[]),
    }
    bytes(out, &text);
    Some(())
}

/// A datum whose form is the same in columns and in arrays.
fn either(out: &mut Vec<u8>, datum: &Datum, of: &Type, place: Place, scratch: &[u8]) -> Option<()> {
    match *datum {
        Datum::Null | Datum::Array(..) => return None,
        Datum::Bool(value) => out.push(u8::from(value)),
        Datum::Int(value) => integer(out, value, of)?,
        Datum::Float(value) => float(out, value, of, place)?,
        Datum::Decimal(value) => printed(out, |text| number(text, value, place))?,
        Datum::NotFinite(text) => bytes(out, text.as_bytes()),
        Datum::Text(text) => bytes(out, text.as_bytes()),
        Datum::Bytes(_) => return None,
        Datum::Uuid(data) => string(out, |text| uuid_text(text, &data)),
        Datum::Timestamp(seconds, nanos) => printed(out, |text| zoned_timestamp(text, seconds, nanos))?,
        Datum::TimeTz(micros, offset) => printed(out, |text| zoned_time(text, micros, offset))?,
        Datum::Interval(months, days, nanos) => {
            string(out, |text| iso_interval(text, months, days, nanos));
        }
        Datum::Inet { v6, mask, address } => string(out, |text| inet_text(text, v6, mask, address)),
        Datum::Bits(count, words) => string(out, |text| bits_text(text, count, words)),
        Datum::Json(start, end) => bytes(out, scratch.get(start..end)?),
    }
    Some(())
}

fn printed(out: &mut Vec<u8>, print: impl Fn(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    let mut text = Vec::with_capacity(64);
    print(&mut text)?;
    bytes(out, &text);
    Some(())
}

/// An integer that fits the column's width.
fn integer(out: &mut Vec<u8>, value: i64, of: &Type) -> Option<()> {
    match (of.kind, of.precision) {
        (Kind::Int, 16) => long(out, i64::from(i16::try_from(value).ok()?)),
        (Kind::Int, 32) => long(out, i64::from(i32::try_from(value).ok()?)),
        (Kind::Int | Kind::Oid, _) => long(out, value),
        (Kind::Lsn, _) => string(out, |text| lsn_text(text, value as u64)),
        _ => return None,
    }
    Some(())
}

/// A number in the column's width. What is no number is Python's where its bits could change.
fn float(out: &mut Vec<u8>, value: f64, of: &Type, place: Place) -> Option<()> {
    let (is_narrow, is_key) = (of.precision == NARROW_FLOAT, place != Place::Column);
    if value.is_nan() && (is_narrow || is_key) {
        return None;
    }
    if !is_narrow {
        let shown = if is_key { value + 0.0 } else { value };
        out.extend_from_slice(&shown.to_le_bytes());
        return Some(());
    }
    let nearest = value as f32;
    let is_cut =
        if is_key { f64::from(nearest) != value } else { nearest.is_infinite() && value.is_finite() };
    if is_cut {
        return None;
    }
    let shown = if is_key { nearest + 0.0 } else { nearest };
    out.extend_from_slice(&shown.to_le_bytes());
    Some(())
}

/// A decimal without its zeros behind so many places.
fn without_zeros_beyond(mut value: Decimal, places: i64) -> Decimal {
    while value.exponent < -places && value.coefficient != 0 && value.coefficient.is_multiple_of(10) {
        (value.coefficient, value.exponent) = (value.coefficient / 10, value.exponent + 1);
    }
    if value.coefficient == 0 {
        value.exponent = 0;
    }
    value
}

fn number(text: &mut Vec<u8>, value: Decimal, place: Place) -> Option<()> {
    if place == Place::Column {
        decimal_text(text, value)
    } else {
        plain_decimal_text(text, value)
    }
}

fn zoned_timestamp(text: &mut Vec<u8>, seconds: i64, nanos: u32) -> Option<()> {
    require_finite(seconds, nanos)?;
    if seconds >= FIVE_DIGIT_YEARS {
        text.push(b'+');
    }
    timestamp_text(text, seconds, nanos);
    text.push(b'Z');
    Some(())
}

fn require_finite(seconds: i64, nanos: u32) -> Option<()> {
    let whole = i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos);
    (FIRST_NANOS < whole && whole < LAST_NANOS).then_some(())
}

/// A time of day with its offset: `Z` for none, and without its seconds where it has none.
fn zoned_time(text: &mut Vec<u8>, micros: i64, offset: i64) -> Option<()> {
    timetz_text(text, micros, offset)?;
    if text.ends_with(NO_OFFSET) {
        text.truncate(text.len() - NO_OFFSET.len());
        text.push(b'Z');
    } else if text.ends_with(WHOLE_MINUTES) {
        text.truncate(text.len() - WHOLE_MINUTES.len());
    }
    Some(())
}

/// The items of an array, each a union with null.
fn array(out: &mut Vec<u8>, payload: &[u8], of: &Type, place: Place) -> Option<()> {
    array_block(out, payload, of, |out, datum, of| {
        if matches!(datum, Datum::Null) {
            out.push(NULL);
            return Some(());
        }
        out.push(FIRST);
        item(out, datum, of, place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::TEXT_MAX;

    fn written(datum: Datum, of: &Type, place: Place) -> Option<Vec<u8>> {
        let mut out = vec![];
        datum_connect(&mut out, &datum, of, place, b"[1]")?;
        Some(out)
    }

    fn text(datum: Datum, of: impl Into<Type>, place: Place) -> Option<String> {
        let bytes = written(datum, &of.into(), place)?;
        let start = usize::from(place != Place::Key) + 1;
        Some(String::from_utf8(bytes[start..].to_vec()).unwrap())
    }

    fn wide(kind: Kind, bits: i64) -> Type {
        Type { kind, precision: bits, ..Type::default() }
    }

    #[test]
    fn only_a_key_has_no_branch() {
        let of = Type::from(Kind::Int);
        assert_eq!(written(Datum::Int(7), &of, Place::Column).unwrap(), [2, 14]);
        assert_eq!(written(Datum::Int(7), &of, Place::NullableKey).unwrap(), [2, 14]);
        assert_eq!(written(Datum::Int(7), &of, Place::Key).unwrap(), [14]);
        assert_eq!(written(Datum::Null, &of, Place::Column).unwrap(), [0]);
        assert_eq!(written(Datum::Null, &of, Place::NullableKey).unwrap(), [0]);
        assert_eq!(written(Datum::Null, &of, Place::Key), None);
    }

    #[test]
    fn numbers_fit_their_widths() {
        for (bits, highest) in [(16, 32_767), (32, 2_147_483_647)] {
            let of = wide(Kind::Int, bits);
            assert!(written(Datum::Int(highest), &of, Place::Column).is_some());
            assert!(written(Datum::Int(-highest - 1), &of, Place::Column).is_some());
            assert_eq!(written(Datum::Int(highest + 1), &of, Place::Column), None);
        }
        assert!(written(Datum::Int(i64::MIN), &wide(Kind::Int, 64), Place::Column).is_some());
        let (narrow, of) = (wide(Kind::Float, 32), wide(Kind::Float, 64));
        assert_eq!(written(Datum::Float(1.5), &narrow, Place::Column).unwrap(), [2, 0, 0, 0xc0, 0x3f]);
        assert_eq!(written(Datum::Float(0.1), &narrow, Place::Column).unwrap().len(), 5);
        assert_eq!(written(Datum::Float(0.1), &narrow, Place::Key), None);
        assert_eq!(written(Datum::Float(1e39), &narrow, Place::Column), None);
        assert!(written(Datum::Float(f64::INFINITY), &narrow, Place::Column).is_some());
        assert_eq!(written(Datum::Float(f64::NAN), &narrow, Place::Column), None);
        assert_eq!(written(Datum::Float(f64::NAN), &of, Place::Key), None);
        assert!(written(Datum::Float(f64::NAN), &of, Place::Column).is_some());
        assert_eq!(written(Datum::Float(-0.0), &of, Place::Key).unwrap(), [0; 8]);
        assert_eq!(written(Datum::Float(-0.0), &narrow, Place::Key).unwrap(), [0; 4]);
        assert_eq!(written(Datum::Float(-0.0), &of, Place::Column).unwrap()[8], 0x80);
    }

    #[test]
    fn decimals_are_units_or_text() {
        let of = |precision, scale| Type { precision, scale, ..Kind::Decimal.into() };
        let number =
            |negative, coefficient, exponent| Datum::Decimal(Decimal { negative, coefficient, exponent });
        let units = |datum| written(datum, &of(5, 2), Place::Column);
        assert_eq!(units(number(false, 15, -1)).unwrap(), [2, 4, 0, 150]);
        assert_eq!(units(number(false, 1500, -3)).unwrap(), [2, 4, 0, 150]);
        assert_eq!(units(number(false, 0, -90)).unwrap(), [2, 2, 0]);
        assert_eq!((units(number(false, 1501, -3)), units(Datum::NotFinite("NaN"))), (None, None));
        let plain = |datum, place| text(datum, of(0, 0), place).unwrap();
        assert_eq!(plain(number(false, 150, -2), Place::Column), "1.50");
        assert_eq!(plain(number(false, 1, 3), Place::Column), "1E+3");
        assert_eq!(plain(number(true, 150, -2), Place::Key), "-1.5");
        assert_eq!(plain(number(false, 1, 3), Place::NullableKey), "1000");
        assert_eq!(plain(number(true, 0, -3), Place::Key), "0");
        assert_eq!(plain(Datum::NotFinite("NaN"), Place::Column), "NaN");
        assert_eq!(text(number(false, 1, 101), of(0, 0), Place::Key), None);
    }

    #[test]
    fn times_are_numbers_or_text() {
        let column = |datum, kind: Kind| text(datum, kind, Place::Column);
        assert_eq!(written(Datum::Int(7), &Kind::Date.into(), Place::Column).unwrap(), [2, 14]);
        assert_eq!(written(Datum::Int(i64::MAX), &Kind::Date.into(), Place::Column), None);
        assert_eq!(written(Datum::Int(7), &Kind::Time.into(), Place::Column).unwrap(), [2, 14]);
        let before = Datum::Timestamp(-1, 999_999_999);
        assert_eq!(written(before, &Kind::Timestamp.into(), Place::Column).unwrap(), [2, 1]);
        assert_eq!(column(before, Kind::TimestampTz).unwrap(), "1969-12-31T23:59:59.999999999Z");
        let late = column(Datum::Timestamp(FIVE_DIGIT_YEARS, 0), Kind::TimestampTz);
        assert_eq!(late.unwrap(), "+10000-01-01T00:00:00Z");
        for seconds in [-210_866_803_200, 9_224_318_016_000] {
            for kind in [Kind::Timestamp, Kind::TimestampTz] {
                assert_eq!(written(Datum::Timestamp(seconds, 0), &kind.into(), Place::Column), None);
            }
        }
        for (offset, shown) in [(0, "Z"), (-7200, "+02:00"), (1, "-00:00:01"), (5400, "-01:30")] {
            let zoned = column(Datum::TimeTz(0, offset), Kind::TimeTz).unwrap();
            assert_eq!(zoned, format!("00:00:00{shown}"));
        }
        assert_eq!(column(Datum::Interval(1, 0, 0), Kind::Interval).unwrap(), "P1M");
    }

    #[test]
    fn other_types_are_bytes_or_text() {
        let column = |datum, kind: Kind| text(datum, kind, Place::Column).unwrap();
        assert_eq!(column(Datum::Bytes(b"ab"), Kind::Bytes), "ab");
        assert_eq!(column(Datum::Bits(3, &[0xa0, 0, 0, 0, 0, 0, 0, 0]), Kind::Bits), "101");
        assert_eq!(column(Datum::Json(0, 3), Kind::Json), "[1]");
        assert_eq!(column(Datum::Int(0x16_b374_d848), Kind::Lsn), "16/B374D848");
        assert_eq!(column(Datum::Uuid([0x12; 16]), Kind::Uuid), "12121212-1212-1212-1212-121212121212");
        assert_eq!(written(Datum::Int(7), &Kind::Oid.into(), Place::Column).unwrap(), [2, 14]);
        assert_eq!(written(Datum::Bool(true), &Kind::Bool.into(), Place::Column).unwrap(), [2, 1]);
    }

    #[test]
    fn items_of_some_types_are_text() {
        let array = |element, payload: &'static [u8]| {
            let of = Type { kind: Kind::Array, element, ..Type::default() };
            written(Datum::Array(payload, 0, 0), &of, Place::Column)
        };
        assert_eq!(array(Kind::Int, b"\x11\x03\x02\x02\x02").unwrap(), [2, 4, 2, 2, 0, 0]);
        assert_eq!(array(Kind::Int, b"\x01\x03\x00").unwrap(), [2, 0]);
        assert_eq!(array(Kind::Date, b"\x01\x03\x01\x00").unwrap(), b"\x02\x02\x02\x141970-01-01\x00");
        assert_eq!(array(Kind::Time, b"\x01\x03\x01\x00").unwrap(), b"\x02\x02\x02\x1000:00:00\x00");
        assert_eq!(array(Kind::Bytes, b"\x01\x06\x01\x01\xff").unwrap(), b"\x02\x02\x02\x08\\xff\x00");
        let time = array(Kind::Timestamp, b"\x01\x08\x01\x00\x00").unwrap();
        assert_eq!(time, b"\x02\x02\x02\x261970-01-01T00:00:00\x00");
        assert_eq!(array(Kind::Date, b"\x01\x03\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
    }

    #[test]
    fn an_array_that_becomes_too_long_is_refused_at_the_element_that_makes_it_so() {
        let labels = vec![(b"x".to_vec(), "l".repeat(1 << 20))];
        let of = Type { kind: Kind::Array, element: Kind::Enum, labels, ..Type::default() };
        for (count, is_taken) in [(15, true), (16, false), (100, false)] {
            let payload = [&[1, 6, count as u8][..], &b"\x01x".repeat(count)].concat();
            let mut out = vec![];
            assert_eq!(array(&mut out, &payload, &of, Place::Column).is_some(), is_taken);
            assert!(out.len() < TEXT_MAX + (2 << 20));
        }
    }
}
