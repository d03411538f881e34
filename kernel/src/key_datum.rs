//! Datums in keys, in both directions, as `tidegate/rows/keyside` reads them.

use crate::cursor::Cursor;
use crate::datum::{inet, interval, label, number, text, timestamp, Datum};
use crate::decimals::key_decimal;
use crate::integers::{uvarint_asc, uvarint_desc, varint_asc};
use crate::kind::{Kind, Type};

const NANOS_PER_MICRO: i64 = 1000;
const MICROS_PER_SECOND: i128 = 1_000_000;
const BYTES_ASC: u8 = 0x12;
const BYTES_DESC: u8 = 0x13;
const TIMESTAMP: u8 = 0x14;
const INTERVAL: u8 = 0x16;
const TIME_TZ: u8 = 0x3c;

/// The datum of a key's column.
pub fn key_datum<'a>(cursor: &mut Cursor<'a>, of: &'a Type, descending: bool) -> Option<Datum<'a>> {
    let integer = |cursor: &mut Cursor| {
        let value = varint_asc(cursor)?;
        Some(if descending { !value } else { value })
    };
    Some(match of.kind {
        Kind::Int | Kind::Date | Kind::Time | Kind::Oid => Datum::Int(integer(cursor)?),
        Kind::Bool => match integer(cursor)? {
            0 => Datum::Bool(false),
            1 => Datum::Bool(true),
            _ => return None,
        },
        Kind::Timestamp | Kind::TimestampTz => {
            marker(cursor, TIMESTAMP)?;
            let (seconds, nanos) = (integer(cursor)?, integer(cursor)?);
            whole_micros(nanos)?;
            timestamp(seconds, nanos)?
        }
        Kind::TimeTz => {
            marker(cursor, TIME_TZ)?;
            let (instant, offset) = (integer(cursor)?, integer(cursor)?);
            let micros = i128::from(instant) - i128::from(offset) * MICROS_PER_SECOND;
            Datum::TimeTz(i64::try_from(micros).ok()?, offset)
        }
        Kind::Interval => {
            marker(cursor, INTERVAL)?;
            let total = integer(cursor)?;
            whole_micros(total)?;
            interval(total, integer(cursor)?, integer(cursor)?)?
        }
        Kind::Lsn => Datum::Int(if descending { uvarint_desc(cursor)? } else { uvarint_asc(cursor)? } as i64),
        Kind::Float => float(cursor, descending)?,
        Kind::Decimal => number(key_decimal(cursor, descending)?),
        Kind::Text if !descending => Datum::Text(text(plain_bytes(cursor)?)?),
        Kind::Bytes if !descending => Datum::Bytes(plain_bytes(cursor)?),
        Kind::Uuid => Datum::Uuid(byte_string(cursor, descending)?.try_into().ok()?),
        Kind::Enum => label(&byte_string(cursor, descending)?, &of.labels)?,
        Kind::Inet => {
            let bytes = byte_string(cursor, descending)?;
            let mut inner = Cursor::new(&bytes);
            let datum = inet(&mut inner)?;
            if inner.more() {
                return None;
            }
            datum
        }
        _ => return None,
    })
}

/// Only Python knows whether a feed's keys may have a time that is finer.
fn whole_micros(nanos: i64) -> Option<()> {
    (nanos % NANOS_PER_MICRO == 0).then_some(())
}

fn marker(cursor: &mut Cursor, expected: u8) -> Option<()> {
    (cursor.byte()? == expected).then_some(())
}

fn float<'a>(cursor: &mut Cursor, descending: bool) -> Option<Datum<'a>> {
    let value = match cursor.byte()? {
        0x02 | 0x06 => f64::NAN,
        0x03 => f64::from_bits(!u64::from_be_bytes(cursor.take(8)?.try_into().ok()?)),
        0x04 => 0.0,
        0x05 => f64::from_be_bytes(cursor.take(8)?.try_into().ok()?),
        _ => return None,
    };
    // Without arithmetic on what is no number, which may change its bits.
    Some(Datum::Float(if descending && !value.is_nan() { 0.0 - value } else { value }))
}

/// A byte string without a zero in it: one with an escape is refused, since its bytes stand nowhere as they are.
fn plain_bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    marker(cursor, BYTES_ASC)?;
    let size = cursor.rest().iter().position(|byte| *byte == 0)?;
    let bytes = cursor.take(size)?;
    (cursor.take(2)? == [0, 1]).then_some(bytes)
}

/// A copy of any byte string.
fn byte_string(cursor: &mut Cursor, descending: bool) -> Option<Vec<u8>> {
    let (first, mask) = if descending { (BYTES_DESC, 0xff) } else { (BYTES_ASC, 0) };
    marker(cursor, first)?;
    let mut bytes = vec![];
    loop {
        match cursor.byte()? ^ mask {
            0 => match cursor.byte()? ^ mask {
                1 => return Some(bytes),
                0xff => bytes.push(0),
                _ => return None,
            },
            byte => bytes.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimals::Decimal;

    fn read(kind: Kind, descending: bool, bytes: &[u8]) -> Option<Datum<'static>> {
        let (of, mut cursor) = (Type::from(kind), Cursor::new(bytes));
        let datum = match key_datum(&mut cursor, &of, descending)? {
            Datum::Text(_) | Datum::Bytes(_) => Datum::Null, // they borrow
            Datum::Int(value) => Datum::Int(value),
            Datum::Bool(value) => Datum::Bool(value),
            Datum::Timestamp(seconds, nanos) => Datum::Timestamp(seconds, nanos),
            Datum::TimeTz(micros, offset) => Datum::TimeTz(micros, offset),
            Datum::Interval(months, days, nanos) => Datum::Interval(months, days, nanos),
            Datum::Float(value) => Datum::Float(value),
            Datum::Decimal(value) => Datum::Decimal(value),
            Datum::NotFinite(text) => Datum::NotFinite(text),
            Datum::Uuid(bytes) => Datum::Uuid(bytes),
            other => unreachable!("{other:?}"),
        };
        assert!(!cursor.more());
        Some(datum)
    }

    #[test]
    fn keys_of_each_kind() {
        let of = Type::from(Kind::Text);
        assert_eq!(key_datum(&mut Cursor::new(b"\x12ab\x00\x01"), &of, false), Some(Datum::Text("ab")));
        let (micros, nanos) = (b"\x14\x89\xf7\x07\xd0", b"\x14\x89\x8a");
        assert_eq!(read(Kind::Timestamp, false, micros), Some(Datum::Timestamp(1, 2000)));
        assert_eq!(read(Kind::Timestamp, false, nanos), None);
        assert_eq!(read(Kind::Bool, false, b"\x89"), Some(Datum::Bool(true)));
        assert_eq!(read(Kind::Bool, false, b"\x8a"), None);
        assert_eq!(read(Kind::Text, false, b"\x12a\x00\xffb\x00\x01"), None);
        assert_eq!(read(Kind::Uuid, false, b"\x12a\x00\x01"), None);
        assert_eq!(read(Kind::Int, false, b"\x00"), None);
        assert_eq!(read(Kind::Float, false, b"\x05\x3f\xf8\0\0\0\0\0\0"), Some(Datum::Float(1.5)));
        assert_eq!(read(Kind::TimeTz, false, b"\x3c\x88\x88"), Some(Datum::TimeTz(0, 0)));
        assert_eq!(
            read(Kind::Interval, false, b"\x16\xf7\x07\xd0\x88\x88"),
            Some(Datum::Interval(0, 0, 2000))
        );
        assert_eq!(read(Kind::Interval, false, b"\x16\x8a\x88\x88"), None);
    }

    #[test]
    fn descending_keys_are_complements() {
        assert_eq!(read(Kind::Int, true, &[0x87, 0xfa]), Some(Datum::Int(5)));
        let micros = b"\x14\x87\xfe\x86\xf8\x2f";
        assert_eq!(read(Kind::Timestamp, true, micros), Some(Datum::Timestamp(1, 2000)));
        assert_eq!(read(Kind::Timestamp, true, b"\x14\x87\xfe\x87\xfd"), None);
        assert_eq!(read(Kind::Float, true, b"\x03\x40\x07\xff\xff\xff\xff\xff\xff"), Some(Datum::Float(1.5)));
        let one_and_a_half = Decimal { negative: false, coefficient: 15, exponent: -1 };
        assert_eq!(read(Kind::Decimal, false, b"\x2a\x03\x64\x00"), Some(Datum::Decimal(one_and_a_half)));
        assert_eq!(read(Kind::Decimal, true, b"\x24\xfc\x9b\x00"), Some(Datum::Decimal(one_and_a_half)));
        assert_eq!(read(Kind::Text, true, b"\x13\x9e\xff\xfe"), None);
    }

    #[test]
    fn a_uuid_with_a_zero_byte_is_read_in_both_directions() {
        let mut uuid = [7; 16];
        uuid[3] = 0;
        let escaped = b"\x07\x07\x07\x00\xff\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x00\x01";
        assert_eq!(read(Kind::Uuid, false, &[b"\x12", &escaped[..]].concat()), Some(Datum::Uuid(uuid)));
        let complement: Vec<u8> = escaped.iter().map(|byte| !byte).collect();
        assert_eq!(read(Kind::Uuid, true, &[b"\x13", &complement[..]].concat()), Some(Datum::Uuid(uuid)));
    }

    #[test]
    fn no_cut_of_a_key_traps() {
        for kind in 0..=20 {
            for bytes in
                [&b"\x14\x89\xf7\x07\xd0"[..], b"\x2a\x03\x64\x00", b"\x12\x00\xff\x00\x01", b"\x3a\x88"]
            {
                for end in 0..bytes.len() {
                    let of = Type::from(Kind::of(kind).unwrap());
                    key_datum(&mut Cursor::new(&bytes[..end]), &of, kind % 2 == 0);
                }
            }
        }
    }
}
