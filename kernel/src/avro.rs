//! Datums as Avro: the union of null and the branches of a column's type, as
//! `tidegate/changefeed/encoding/avro/field_types.py` chooses them and fastavro writes them.

use crate::arrays::{element_type, Elements};
use crate::datum::Datum;
use crate::datum_text::{hlc_text, inet_text, iso_interval, lsn_text, timetz_text, MICROS_MAX};
use crate::decimals::Decimal;
use crate::json_text::uuid_text;
use crate::kind::{Kind, Type};
use crate::row::TEXT_MAX;

pub const NULL: u8 = 0;
pub const FIRST: u8 = 2;
const SECOND: u8 = 4;
pub const END: u8 = 0;
const WORD_BITS: usize = 64;
const MICROS_PER_SECOND: i128 = 1_000_000;

/// Appends a datum with its branch. Refuses what only Python writes, and what has no form.
pub fn datum_avro(out: &mut Vec<u8>, datum: &Datum, of: &Type, scratch: &[u8]) -> Option<()> {
    out.push(match datum {
        Datum::Null => NULL,
        Datum::NotFinite(_) => SECOND,
        _ => FIRST,
    });
    match *datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(value)),
        Datum::Int(value) => integer(out, value, of.kind)?,
        Datum::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Decimal(value) => bytes(out, &unscaled(value, of)?),
        Datum::NotFinite(text) => bytes(out, text.as_bytes()),
        Datum::Text(text) => bytes(out, text.as_bytes()),
        Datum::Bytes(data) => bytes(out, data),
        Datum::Uuid(data) => string(out, |text| uuid_text(text, &data)),
        Datum::Timestamp(seconds, nanos) => {
            let micros = i128::from(seconds) * MICROS_PER_SECOND + i128::from(nanos / 1000);
            long(out, i64::try_from(micros).ok()?);
        }
        Datum::TimeTz(micros, offset) => {
            let mut text = vec![];
            timetz_text(&mut text, micros, offset)?;
            bytes(out, &text);
        }
        Datum::Interval(months, days, nanos) => {
            string(out, |text| iso_interval(text, months, days, nanos));
        }
        Datum::Inet { v6, mask, address } => string(out, |text| inet_text(text, v6, mask, address)),
        Datum::Bits(count, words) => bits(out, count, words),
        Datum::Json(start, end) => bytes(out, scratch.get(start..end)?),
        Datum::Array(payload, ..) => {
            array_block(out, payload, of, |out, item, of| datum_avro(out, item, of, &[]))?
        }
    }
    Some(())
}

/// A time of the hybrid logical clock as a string.
pub fn hlc_avro(out: &mut Vec<u8>, wall: i64, logical: i64) {
    string(out, |text| hlc_text(text, wall, logical));
}

/// A long: zigzag, least significant group first.
pub fn long(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub fn bytes(out: &mut Vec<u8>, data: &[u8]) {
    long(out, data.len() as i64);
    out.extend_from_slice(data);
}

pub fn string(out: &mut Vec<u8>, print: impl Fn(&mut Vec<u8>)) {
    let mut text = Vec::with_capacity(64);
    print(&mut text);
    bytes(out, &text);
}

fn integer(out: &mut Vec<u8>, value: i64, kind: Kind) -> Option<()> {
    match kind {
        Kind::Int => long(out, value),
        Kind::Date => long(out, i64::from(i32::try_from(value).ok()?)),
        Kind::Time if (0..=MICROS_MAX).contains(&value) => long(out, value),
        Kind::Lsn => string(out, |text| lsn_text(text, value as u64)),
        _ => return None,
    }
    Some(())
}

/// A decimal in units of its last place, in as few bytes as hold it. Refuses more places and digits than the column has.
pub fn unscaled(value: Decimal, of: &Type) -> Option<Vec<u8>> {
    let shift = u32::try_from(value.exponent.checked_add(of.scale)?).ok()?;
    let coefficient = i128::try_from(value.coefficient).ok()?;
    let number = if coefficient == 0 { 0 } else { coefficient.checked_mul(10i128.checked_pow(shift)?)? };
    let digits = number.checked_ilog10().map_or(1, |log| i64::from(log) + 1);
    if digits > of.precision {
        return None;
    }
    let signed = if value.negative { -number } else { number };
    let magnitude = if signed < 0 { !signed } else { signed };
    let size = (128 - magnitude.leading_zeros()) as usize / 8 + 1;
    signed.to_be_bytes().get(16usize.checked_sub(size)?..).map(<[u8]>::to_vec)
}

/// How many bits of the last word are used, then the words.
fn bits(out: &mut Vec<u8>, count: usize, words: &[u8]) {
    long(out, 1 + (words.len() / 8) as i64);
    long(out, if count == 0 { 0 } else { ((count - 1) % WORD_BITS + 1) as i64 });
    for word in words.as_chunks::<8>().0 {
        long(out, i64::from_be_bytes(*word));
    }
    out.push(END);
}

/// Appends the items of an array as one block. `write` appends an item with its branch.
///
/// Refuses an array whose items become too long, at the item that makes them so.
pub fn array_block(
    out: &mut Vec<u8>,
    payload: &[u8],
    of: &Type,
    write: impl Fn(&mut Vec<u8>, &Datum, &Type) -> Option<()>,
) -> Option<()> {
    let (mut elements, element) = (Elements::new(payload, of)?, element_type(of));
    if elements.count > 0 {
        long(out, elements.count as i64);
        let start = out.len();
        for _ in 0..elements.count {
            write(out, &elements.next()?, &element)?;
            if out.len() - start > TEXT_MAX {
                return None;
            }
        }
    }
    out.push(END);
    elements.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(datum: Datum, of: impl Into<Type>) -> Option<Vec<u8>> {
        let mut out = vec![];
        datum_avro(&mut out, &datum, &of.into(), b"[1]")?;
        Some(out)
    }

    #[test]
    fn longs_are_zigzag() {
        for (value, expected) in [(0, &[0][..]), (-1, &[1]), (1, &[2]), (64, &[0x80, 1])] {
            let mut out = vec![];
            long(&mut out, value);
            assert_eq!(out, expected);
        }
        let mut out = vec![];
        long(&mut out, i64::MIN);
        assert_eq!(out, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn a_datum_stands_behind_its_branch() {
        assert_eq!(written(Datum::Null, Kind::Other).unwrap(), [0]);
        assert_eq!(written(Datum::Int(7), Kind::Int).unwrap(), [2, 14]);
        assert_eq!(written(Datum::Bool(true), Kind::Bool).unwrap(), [2, 1]);
        assert_eq!(written(Datum::Text("ab"), Kind::Text).unwrap(), b"\x02\x04ab");
        assert_eq!(written(Datum::Timestamp(-1, 999_999_999), Kind::Timestamp).unwrap(), [2, 1]);
        assert_eq!(written(Datum::Json(0, 3), Kind::Json).unwrap(), b"\x02\x06[1]");
        assert_eq!(written(Datum::NotFinite("NaN"), Kind::Decimal).unwrap(), b"\x04\x06NaN");
        assert_eq!(
            written(Datum::Bits(3, &[0xa0, 0, 0, 0, 0, 0, 0, 0]), Kind::Bits).unwrap()[..3],
            [2, 4, 6]
        );
        assert_eq!(written(Datum::Bits(0, &[]), Kind::Bits).unwrap(), [2, 2, 0, 0]);
    }

    #[test]
    fn decimals_are_units_of_the_last_place() {
        let of = || Type { precision: 5, scale: 2, ..Kind::Decimal.into() };
        let number = |negative, coefficient, exponent| {
            written(Datum::Decimal(Decimal { negative, coefficient, exponent }), of())
        };
        assert_eq!(number(false, 15, -1).unwrap(), [2, 4, 0, 150]);
        assert_eq!(number(true, 128, -2).unwrap(), [2, 2, 0x80]);
        assert_eq!(number(false, 127, -2).unwrap(), [2, 2, 0x7f]);
        assert_eq!(number(true, 0, 3).unwrap(), [2, 2, 0]);
        assert_eq!((number(false, 15, -3), number(false, 1, 3), number(false, 1, 300)), (None, None, None));
    }

    #[test]
    fn arrays_are_one_block() {
        let of = || Type { kind: Kind::Array, element: Kind::Int, ..Type::default() };
        let array = |payload| written(Datum::Array(payload, 0, 0), of()).unwrap();
        assert_eq!(array(b"\x11\x03\x02\x02\x02"), [2, 4, 2, 2, 0, 0]);
        assert_eq!(array(b"\x01\x03\x00"), [2, 0]);
    }

    #[test]
    fn an_array_that_becomes_too_long_is_refused_at_the_element_that_makes_it_so() {
        let labels = vec![(b"x".to_vec(), "l".repeat(1 << 20))];
        let of = Type { kind: Kind::Array, element: Kind::Enum, labels, ..Type::default() };
        for (count, is_taken) in [(15, true), (16, false), (100, false)] {
            let payload = [&[1, 6, count as u8][..], &b"\x01x".repeat(count)].concat();
            let mut out = vec![];
            assert_eq!(datum_avro(&mut out, &Datum::Array(&payload, 0, 0), &of, &[]).is_some(), is_taken);
            assert!(out.len() < TEXT_MAX + (2 << 20));
        }
    }

    #[test]
    fn datums_without_a_form_are_refused() {
        assert_eq!(written(Datum::Int(7), Kind::Oid), None);
        assert_eq!(written(Datum::Int(i64::MAX), Kind::Date), None);
        assert_eq!(written(Datum::Int(-1), Kind::Time), None);
        assert_eq!(written(Datum::Timestamp(i64::MAX, 0), Kind::Timestamp), None);
    }
}
