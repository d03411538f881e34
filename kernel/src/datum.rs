//! Datums in values, as `tidegate/rows/valueside` reads them, and in keys, as `tidegate/rows/keyside` does.

use crate::arrays::array_json;
use crate::cursor::Cursor;
use crate::decimals::{decimal_body, Decimal, Number};
use crate::json_value::json_value;
use crate::kind::{Kind, Type};
use crate::row::TEXT_MAX;
use crate::varints::{length, uvarint, zigzag};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const UUID_BYTES: usize = 16;
const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND as i128;
const WORD_BITS: usize = 64;
/// To look at so many labels, one after the other, is faster than to halve them.
const FEW_LABELS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Decimal(Decimal),
    /// A number that is not finite, as Python prints it.
    NotFinite(&'static str),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid([u8; UUID_BYTES]),
    /// Seconds since 1970, and nanoseconds of the last one.
    Timestamp(i64, u32),
    /// Microseconds of the local day, and seconds west of UTC.
    TimeTz(i64, i64),
    /// Months, days and nanoseconds.
    Interval(i64, i64, i64),
    /// An address, of which IPv4 has the first four bytes, and the length of its mask.
    Inet {
        v6: bool,
        mask: u8,
        address: [u8; 16],
    },
    /// How many bits, and the words that have them.
    Bits(usize, &'a [u8]),
    /// A JSONB: where its text is in the row's scratch.
    Json(usize, usize),
    /// An array: its payload, and where its JSON text is in the row's scratch.
    Array(&'a [u8], usize, usize),
}

/// Types of the bytes behind a tag (`tidegate/rows/valueside/tags.py`).
pub mod wire {
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
    pub const IP_ADDRESS: u8 = 14;
    pub const JSON: u8 = 15;
    pub const BIT_ARRAY: u8 = 17;
    pub const TIME_TZ: u8 = 18;
}

/// The datum behind a tag. Refuses a wire type that is not the column's. Text of datums that have no form here goes
/// into `scratch`.
#[inline]
pub fn value_datum<'a>(
    cursor: &mut Cursor<'a>,
    of: &'a Type,
    wire_type: u8,
    scratch: &mut Vec<u8>,
) -> Option<Datum<'a>> {
    let start = scratch.len();
    Some(match (of.kind, wire_type) {
        (Kind::Json, wire::JSON) => {
            json_value(scratch, sized(cursor)?)?;
            if scratch.len() > TEXT_MAX {
                return None;
            }
            Datum::Json(start, scratch.len())
        }
        (Kind::Array, wire::ARRAY) => {
            let payload = sized(cursor)?;
            array_json(scratch, payload, of)?;
            Datum::Array(payload, start, scratch.len())
        }
        (kind, wire_type) => plain_datum(cursor, kind, wire_type, &of.labels)?,
    })
}

/// The same for types whose datums have a form here.
#[inline]
pub fn plain_datum<'a>(
    cursor: &mut Cursor<'a>,
    kind: Kind,
    wire_type: u8,
    labels: &'a [(Vec<u8>, String)],
) -> Option<Datum<'a>> {
    Some(match (kind, wire_type) {
        (_, wire::NULL) => Datum::Null,
        (Kind::Int | Kind::Date | Kind::Time | Kind::Oid | Kind::Lsn, wire::INT) => {
            Datum::Int(zigzag(cursor)?)
        }
        (Kind::Text, wire::BYTES) => Datum::Text(text(sized(cursor)?)?),
        (Kind::Bytes, wire::BYTES) => Datum::Bytes(sized(cursor)?),
        (Kind::Timestamp | Kind::TimestampTz, wire::TIME) => timestamp(zigzag(cursor)?, zigzag(cursor)?)?,
        (Kind::Bool, wire::TRUE) => Datum::Bool(true),
        (Kind::Bool, wire::FALSE) => Datum::Bool(false),
        (Kind::Float, wire::FLOAT) => Datum::Float(f64::from_be_bytes(cursor.take(8)?.try_into().ok()?)),
        (Kind::Decimal, wire::DECIMAL) => number(decimal_body(decimal_bytes(cursor)?)?),
        (Kind::Uuid, wire::UUID) => Datum::Uuid(cursor.take(UUID_BYTES)?.try_into().ok()?),
        (Kind::Enum, wire::BYTES) => label(sized(cursor)?, labels)?,
        (Kind::Interval, wire::DURATION) => {
            Datum::Interval(zigzag(cursor)?, zigzag(cursor)?, zigzag(cursor)?)
        }
        (Kind::TimeTz, wire::TIME_TZ) => Datum::TimeTz(zigzag(cursor)?, zigzag(cursor)?),
        (Kind::Inet, wire::IP_ADDRESS) => inet(cursor)?,
        (Kind::Bits, wire::BIT_ARRAY) => bits(cursor)?,
        _ => return None,
    })
}

/// The wire type of a kind, as the elements of an array have it; `None` for kinds that are not read there.
pub fn element_wire_type(kind: Kind) -> Option<u8> {
    Some(match kind {
        Kind::Bool => wire::TRUE,
        Kind::Int | Kind::Date | Kind::Time | Kind::Oid | Kind::Lsn => wire::INT,
        Kind::Float => wire::FLOAT,
        Kind::Decimal => wire::DECIMAL,
        Kind::Text | Kind::Bytes | Kind::Enum => wire::BYTES,
        Kind::Timestamp | Kind::TimestampTz => wire::TIME,
        Kind::Uuid => wire::UUID,
        Kind::Interval => wire::DURATION,
        Kind::TimeTz => wire::TIME_TZ,
        Kind::Inet => wire::IP_ADDRESS,
        Kind::Bits => wire::BIT_ARRAY,
        Kind::Other | Kind::Json | Kind::Array => return None,
    })
}

pub fn number<'a>(number: Number) -> Datum<'a> {
    match number {
        Number::Finite(value) => Datum::Decimal(value),
        Number::NotFinite(text) => Datum::NotFinite(text),
    }
}

/// The label that stands for bytes of an enum. An enum may have 50,000 of them, and an array as many elements.
pub fn label<'a>(physical: &[u8], labels: &'a [(Vec<u8>, String)]) -> Option<Datum<'a>> {
    let at = if labels.len() <= FEW_LABELS {
        labels.iter().position(|(bytes, _)| bytes == physical)?
    } else {
        labels.binary_search_by(|(bytes, _)| bytes.as_slice().cmp(physical)).ok()?
    };
    Some(Datum::Text(&labels[at].1))
}

/// An address (`tidegate/rows/inet.py`).
pub fn inet<'a>(cursor: &mut Cursor) -> Option<Datum<'a>> {
    let (family, mask) = (cursor.byte()?, cursor.byte()?);
    let (v6, size) = match family {
        0 => (false, 4),
        1 => (true, 16),
        _ => return None,
    };
    let mut address = [0; 16];
    address[..size].copy_from_slice(cursor.take(size)?);
    (usize::from(mask) <= 8 * size).then_some(Datum::Inet { v6, mask, address })
}

/// A bit string; no bit behind its end is set.
fn bits<'a>(cursor: &mut Cursor<'a>) -> Option<Datum<'a>> {
    let count = length(cursor)?;
    let words = cursor.take(count.div_ceil(WORD_BITS).checked_mul(8)?)?;
    let behind = (8 * words.len() - count) as u32;
    let last = words.last_chunk::<8>().map_or(0, |word| u64::from_be_bytes(*word));
    (last.trailing_zeros() >= behind).then_some(Datum::Bits(count, words))
}

/// An interval of a key: its total in nanoseconds, with months of 30 days, then months and days.
pub fn interval<'a>(total: i64, months: i64, days: i64) -> Option<Datum<'a>> {
    let nanos = i128::from(total) - (i128::from(months) * 30 + i128::from(days)) * NANOS_PER_DAY;
    Some(Datum::Interval(months, days, i64::try_from(nanos).ok()?))
}

/// Passes over a datum of a column that the table does not have any more, or not yet.
pub fn skip_datum(cursor: &mut Cursor, wire_type: u8) -> Option<()> {
    match wire_type {
        wire::NULL | wire::NOT_NULL | wire::TRUE | wire::FALSE => {}
        wire::INT => drop(uvarint(cursor)?),
        wire::FLOAT => drop(cursor.take(8)?),
        wire::DECIMAL => drop(decimal_bytes(cursor)?),
        wire::BYTES | wire::ARRAY | wire::JSON => drop(sized(cursor)?),
        wire::TIME | wire::TIME_TZ => drop((uvarint(cursor)?, uvarint(cursor)?)),
        wire::DURATION => drop((uvarint(cursor)?, uvarint(cursor)?, uvarint(cursor)?)),
        wire::UUID => drop(cursor.take(UUID_BYTES)?),
        wire::IP_ADDRESS => drop(inet(cursor)?),
        _ => return None,
    }
    Some(())
}

fn sized<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let size = length(cursor)?;
    cursor.take(size)
}

pub fn decimal_bytes<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(uvarint(cursor)?).ok()?;
    cursor.take(size)
}

pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub fn timestamp<'a>(seconds: i64, nanos: i64) -> Option<Datum<'a>> {
    (0..NANOS_PER_SECOND).contains(&nanos).then_some(Datum::Timestamp(seconds, nanos as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_each_kind() {
        let read = |kind, wire_type, bytes| plain_datum(&mut Cursor::new(bytes), kind, wire_type, &[]);
        assert_eq!(read(Kind::Int, wire::INT, &[0x03]), Some(Datum::Int(-2)));
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x02ab"), Some(Datum::Text("ab")));
        assert_eq!(read(Kind::Bool, wire::TRUE, b""), Some(Datum::Bool(true)));
        assert_eq!(read(Kind::Timestamp, wire::TIME, &[0x02, 0x04]), Some(Datum::Timestamp(1, 2)));
        assert_eq!(read(Kind::Float, wire::FLOAT, b"\x3f\xf8\0\0\0\0\0\0"), Some(Datum::Float(1.5)));
        assert_eq!(read(Kind::Other, wire::NULL, b""), Some(Datum::Null));
    }

    #[test]
    fn values_of_the_rarer_kinds() {
        let labels = [(vec![0x40, 0], "low".to_string())];
        let read = |kind, wire_type, bytes| plain_datum(&mut Cursor::new(bytes), kind, wire_type, &labels);
        assert_eq!(read(Kind::Enum, wire::BYTES, b"\x02\x40\x00"), Some(Datum::Text("low")));
        assert_eq!(read(Kind::Enum, wire::BYTES, b"\x02\x40\x01"), None);
        assert_eq!(read(Kind::Interval, wire::DURATION, &[2, 1, 4]), Some(Datum::Interval(1, -1, 2)));
        assert_eq!(read(Kind::TimeTz, wire::TIME_TZ, &[2, 1]), Some(Datum::TimeTz(1, -1)));
        let words = b"\x03\xa0\0\0\0\0\0\0\0";
        assert_eq!(read(Kind::Bits, wire::BIT_ARRAY, words), Some(Datum::Bits(3, &words[1..])));
        assert_eq!(read(Kind::Bits, wire::BIT_ARRAY, b"\x00"), Some(Datum::Bits(0, b"")));
        assert_eq!(read(Kind::Bits, wire::BIT_ARRAY, b"\x02\xa0\0\0\0\0\0\0\0"), None);
        let mut address = [0; 16];
        address[0] = 10;
        let net = Some(Datum::Inet { v6: false, mask: 8, address });
        assert_eq!(read(Kind::Inet, wire::IP_ADDRESS, b"\x00\x08\x0a\0\0\0"), net);
        assert_eq!(read(Kind::Inet, wire::IP_ADDRESS, b"\x00\x21\x0a\0\0\0"), None);
        assert_eq!(read(Kind::Decimal, wire::DECIMAL, b"\x01\x18"), Some(Datum::NotFinite("NaN")));
    }

    #[test]
    fn each_label_is_found_among_all() {
        let labels: Vec<_> =
            (0..=255).map(|byte| (vec![byte / 16; 1 + usize::from(byte % 16)], byte.to_string())).collect();
        for labels in [&labels[..], &labels[..=FEW_LABELS], &labels[..FEW_LABELS], &labels[..1]] {
            for (physical, text) in labels {
                assert_eq!(label(physical, labels), Some(Datum::Text(text)));
            }
        }
        assert_eq!(
            (label(b"", &labels), label(&[15; 17], &labels), label(b"\x10", &labels)),
            (None, None, None)
        );
        assert_eq!(label(b"", &[]), None);
    }

    #[test]
    fn a_document_is_printed_aside() {
        let (of, mut scratch) = (Type::from(Kind::Json), b"x".to_vec());
        let document = b"\x08\x20\0\0\0\x40\0\0\0";
        let datum = value_datum(&mut Cursor::new(document), &of, wire::JSON, &mut scratch);
        assert_eq!((datum, &scratch[..]), (Some(Datum::Json(1, 5)), &b"xtrue"[..]));
        let mut full = vec![b'x'; TEXT_MAX - 3]; // text of other columns of the row
        assert_eq!(value_datum(&mut Cursor::new(document), &of, wire::JSON, &mut full), None);
    }

    #[test]
    fn other_wire_types_cut_bytes_and_bad_text_are_refused() {
        let read = |kind, wire_type, bytes| plain_datum(&mut Cursor::new(bytes), kind, wire_type, &[]);
        assert_eq!(read(Kind::Int, wire::BYTES, b"\x01a"), None);
        assert_eq!(read(Kind::Other, wire::INT, &[0x02]), None);
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x03ab"), None);
        assert_eq!(read(Kind::Text, wire::BYTES, b"\x01\xff"), None);
        assert_eq!(read(Kind::Timestamp, wire::TIME, &[0x02, 0x01]), None);
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
