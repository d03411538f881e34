//! Datums in keys and values, as `tidegate/rows/keyside` and `tidegate/rows/valueside` read them.

use crate::cursor::Cursor;
use crate::decimals::{decimal_body, Decimal};
use crate::integers::varint_asc;
use crate::kind::Kind;
use crate::varints::{length, uvarint, zigzag};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const UUID_BYTES: usize = 16;
const BYTES_ASC: u8 = 0x12;
const TIMESTAMP: u8 = 0x14;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Decimal(Decimal),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(&'a [u8]),
    /// Seconds since 1970, and nanoseconds of the last one.
    Timestamp(i64, u32),
}

/// Types of the bytes behind a tag (`tidegate/rows/valueside/tags.py`).
mod wire {
    pub const NULL: u8 = 1;
    pub const NOT_NULL: u8 = 2;
    pub const INT: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DECIMAL: u8 = 5;
    pub const BYTES: u8 = 6;
    pub const TIME: u8 = 8;
    pub const DURATION: u8 = 9;
    pub const TRUE: u8 = 10;
    pub const FALSE: u8 = 11;
    pub const UUID: u8 = 12;
    pub const ARRAY: u8 = 13;
}

/// The datum behind a tag. Refuses a wire type that is not the column's.
#[inline]
pub fn value_datum<'a>(cursor: &mut Cursor<'a>, kind: Kind, wire_type: u8) -> Option<Datum<'a>> {
    Some(match (kind, wire_type) {
        (_, wire::NULL) => Datum::Null,
        (Kind::Int | Kind::Date | Kind::Time, wire::INT) => Datum::Int(zigzag(cursor)?),
        (Kind::Text, wire::BYTES) => Datum::Text(text(sized(cursor)?)?),
        (Kind::Bytes, wire::BYTES) => Datum::Bytes(sized(cursor)?),
        (Kind::Timestamp | Kind::TimestampTz, wire::TIME) => timestamp(zigzag(cursor)?, zigzag(cursor)?)?,
        (Kind::Bool, wire::TRUE) => Datum::Bool(true),
        (Kind::Bool, wire::FALSE) => Datum::Bool(false),
        (Kind::Float, wire::FLOAT) => Datum::Float(f64::from_be_bytes(cursor.take(8)?.try_into().ok()?)),
        (Kind::Decimal, wire::DECIMAL) => Datum::Decimal(decimal_body(decimal_bytes(cursor)?)?),
        (Kind::Uuid, wire::UUID) => Datum::Uuid(cursor.take(UUID_BYTES)?),
        _ => return None,
    })
}

/// Passes over a datum of a column that the table does not have any more, or not yet.
pub fn skip_datum(cursor: &mut Cursor, wire_type: u8) -> Option<()> {
    match wire_type {
        wire::NULL | wire::NOT_NULL | wire::TRUE | wire::FALSE => {}
        wire::INT => drop(uvarint(cursor)?),
        wire::FLOAT => drop(cursor.take(8)?),
        wire::DECIMAL => drop(decimal_bytes(cursor)?),
        wire::BYTES | wire::ARRAY => drop(sized(cursor)?),
        wire::TIME => drop((uvarint(cursor)?, uvarint(cursor)?)),
        wire::DURATION => drop((uvarint(cursor)?, uvarint(cursor)?, uvarint(cursor)?)),
        wire::UUID => drop(cursor.take(UUID_BYTES)?),
        _ => return None,
    }
    Some(())
}

/// The datum of a key's column, ascending.
pub fn key_datum<'a>(cursor: &mut Cursor<'a>, kind: Kind) -> Option<Datum<'a>> {
    Some(match kind {
        Kind::Int | Kind::Date | Kind::Time => Datum::Int(varint_asc(cursor)?),
        Kind::Bool => match varint_asc(cursor)? {
            0 => Datum::Bool(false),
            1 => Datum::Bool(true),
            _ => return None,
        },
        Kind::Timestamp | Kind::TimestampTz => {
            if cursor.byte()? != TIMESTAMP {
                return None;
            }
            timestamp(varint_asc(cursor)?, varint_asc(cursor)?)?
        }
        Kind::Text => Datum::Text(text(byte_string(cursor)?)?),
        Kind::Bytes => Datum::Bytes(byte_string(cursor)?),
        Kind::Uuid => Datum::Uuid(Some(byte_string(cursor)?).filter(|bytes| bytes.len() == UUID_BYTES)?),
        Kind::Other | Kind::Float | Kind::Decimal => return None,
    })
}

fn sized<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let size = length(cursor)?;
    cursor.take(size)
}

fn decimal_bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(uvarint(cursor)?).ok()?;
    cursor.take(size)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn timestamp<'a>(seconds: i64, nanos: i64) -> Option<Datum<'a>> {
    (0..NANOS_PER_SECOND).contains(&nanos).then_some(Datum::Timestamp(seconds, nanos as u32))
}

/// A byte string without a zero in it: one with an escape is refused, since its bytes stand nowhere as they are.
fn byte_string<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    if cursor.byte()? != BYTES_ASC {
        return None;
    }
    let size = cursor.rest().iter().position(|byte| *byte == 0)?;
    let bytes = cursor.take(size)?;
    (cursor.take(2)? == [0, 1]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_each_kind() {
        let read = |kind, wire_type, bytes| value_datum(&mut Cursor::new(bytes), kind, wire_type);
        assert_eq!(read(Kind::Int, wire::INT, &[0x03]), Some(Datum::Int(-2)));
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x02ab"), Some(Datum::Text("ab")));
        assert_eq!(read(Kind::Bool, wire::TRUE, b""), Some(Datum::Bool(true)));
        assert_eq!(read(Kind::Timestamp, wire::TIME, &[0x02, 0x04]), Some(Datum::Timestamp(1, 2)));
        assert_eq!(read(Kind::Float, wire::FLOAT, b"\x3f\xf8\0\0\0\0\0\0"), Some(Datum::Float(1.5)));
        assert_eq!(read(Kind::Other, wire::NULL, b""), Some(Datum::Null));
    }

    #[test]
    fn other_wire_types_cut_bytes_and_bad_text_are_refused() {
        let read = |kind, wire_type, bytes| value_datum(&mut Cursor::new(bytes), kind, wire_type);
        assert_eq!(read(Kind::Int, wire::BYTES, b"\x01a"), None);
        assert_eq!(read(Kind::Other, wire::INT, &[0x02]), None);
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x03ab"), None);
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x01\xff"), None);
        assert_eq!(read(Kind::Timestamp, wire::TIME, &[0x02, 0x01]), None);
    }

    #[test]
    fn keys_of_each_kind() {
        let read = |kind, bytes| key_datum(&mut Cursor::new(bytes), kind);
        assert_eq!(read(Kind::Text, b"\x12ab\x00\x01"), Some(Datum::Text("ab")));
        assert_eq!(read(Kind::Timestamp, b"\x14\x89\x8a"), Some(Datum::Timestamp(1, 2)));
        assert_eq!(read(Kind::Bool, b"\x89"), Some(Datum::Bool(true)));
        assert_eq!(read(Kind::Bool, b"\x8a"), None);
        assert_eq!(read(Kind::Text, b"\x12a\x00\xffb\x00\x01"), None);
        assert_eq!(read(Kind::Uuid, b"\x12a\x00\x01"), None);
        assert_eq!(read(Kind::Int, b"\x00"), None);
    }

    #[test]
    fn datums_of_columns_that_are_gone_are_passed_over() {
        for (wire_type, bytes) in
            [(wire::INT, &b"\x80\x01"[..]), (wire::ARRAY, b"\x01x"), (wire::DURATION, b"\x01\x02\x03")]
        {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(skip_datum(&mut cursor, wire_type), Some(()));
            assert!(!cursor.more());
        }
        assert_eq!(skip_datum(&mut Cursor::new(b""), 7), None);
    }
}
