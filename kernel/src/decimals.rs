//! Decimals, as `tidegate/rows/valueside/decimals.py` reads them in values, and `tidegate/rows/keyside/decimals.py` in
//! keys.

use crate::cursor::Cursor;
use crate::integers::{uvarint_asc, uvarint_desc};

/// Longer coefficients and larger exponents are refused: no real decimal has them.
const COEFFICIENT_BYTES: usize = 15;
const POINT_MAX: u64 = 5_000;
/// The most digits of base 100 in a key.
const MANTISSA_BYTES: usize = 18;
const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const NEGATIVE_INFINITY: &str = "-Infinity";

/// A finite number: the coefficient times ten to the exponent, and its sign, which zero has too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal {
    pub negative: bool,
    pub coefficient: u128,
    pub exponent: i64,
}

/// A number, or the text of one that is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Finite(Decimal),
    NotFinite(&'static str),
}

const ZERO: Number = Number::Finite(Decimal { negative: false, coefficient: 0, exponent: 0 });

/// A decimal of a key, without trailing zeros.
pub fn key_decimal(cursor: &mut Cursor, descending: bool) -> Option<Number> {
    let marker = cursor.byte()?;
    let inverted = |usual, other| Some(Number::NotFinite(if descending { other } else { usual }));
    let exponent = match marker {
        0x18 | 0x36 => return Some(Number::NotFinite(NAN)),
        0x19 => return inverted(NEGATIVE_INFINITY, INFINITY),
        0x27 => return Some(ZERO),
        0x35 => return inverted(INFINITY, NEGATIVE_INFINITY),
        0x1a => point(uvarint_desc(cursor)?)?,
        0x1b..=0x25 => i64::from(0x25 - marker),
        0x26 => -point(uvarint_asc(cursor)?)?,
        0x28 => -point(uvarint_desc(cursor)?)?,
        0x29..=0x33 => i64::from(marker - 0x29),
        0x34 => point(uvarint_asc(cursor)?)?,
        _ => return None,
    };
    let negative = marker < 0x27;
    let size = cursor.rest().iter().position(|byte| *byte == 0)?;
    let mantissa = cursor.take(size)?;
    cursor.byte()?;
    let (coefficient, digits) = mantissa_of(mantissa, if negative { 0xff } else { 0 })?;
    Some(Number::Finite(Decimal {
        negative: negative != descending,
        coefficient,
        exponent: 2 * exponent - digits,
    }))
}

fn point(magnitude: u64) -> Option<i64> {
    (magnitude <= POINT_MAX).then_some(magnitude as i64)
}

/// The digits of a key's decimal, and how many they are without trailing zeros.
fn mantissa_of(mantissa: &[u8], mask: u8) -> Option<(u128, i64)> {
    if mantissa.len() > MANTISSA_BYTES {
        return None;
    }
    let (last, before) = mantissa.split_last()?;
    let last = last ^ mask;
    if last == 0
        || last % 2 == 1
        || last > 198
        || before.iter().any(|byte| {
            let byte = byte ^ mask;
            byte.is_multiple_of(2) || byte > 199
        })
    {
        return None;
    }
    let whole = mantissa.iter().fold(0u128, |number, byte| number * 100 + u128::from((byte ^ mask) >> 1));
    let digits = 2 * mantissa.len() as i64;
    Some(if whole % 10 == 0 { (whole / 10, digits - 1) } else { (whole, digits) })
}

/// A decimal of a value, with its scale.
pub fn decimal_body(body: &[u8]) -> Option<Number> {
    let mut cursor = Cursor::new(body);
    let (negative, direction) = match cursor.byte()? {
        0x1a => (true, 1),
        0x25 => (true, 0),
        0x26 => (true, -1),
        0x27 if body.len() == 1 => return Some(ZERO),
        0x18 if body.len() == 1 => return Some(Number::NotFinite(NAN)),
        0x19 if body.len() == 1 => return Some(Number::NotFinite(NEGATIVE_INFINITY)),
        0x35 if body.len() == 1 => return Some(Number::NotFinite(INFINITY)),
        0x28 => (false, -1),
        0x29 => (false, 0),
        0x34 => (false, 1),
        _ => return None,
    };
    let point = if direction == 0 { 0 } else { uvarint_asc(&mut cursor)? };
    let digits = cursor.rest();
    if point > POINT_MAX || digits.len() > COEFFICIENT_BYTES {
        return None;
    }
    let coefficient = digits.iter().fold(0, |number: u128, byte| number << 8 | u128::from(*byte));
    let count = coefficient.checked_ilog10().map_or(1, |log| i64::from(log) + 1);
    Some(Number::Finite(Decimal { negative, coefficient, exponent: direction * point as i64 - count }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_kept() {
        let read = decimal_body(b"\x34\x89\x96");
        let expected = Decimal { negative: false, coefficient: 150, exponent: -2 };
        assert_eq!(read, Some(Number::Finite(expected)));
    }

    #[test]
    fn zero_has_a_form_of_its_own() {
        assert_eq!(decimal_body(b"\x27"), Some(ZERO));
        assert_eq!(decimal_body(b"\x27\x01"), None);
    }

    #[test]
    fn what_is_not_finite_is_its_text() {
        assert_eq!(decimal_body(b"\x18"), Some(Number::NotFinite("NaN")));
        let key = |bytes, descending| key_decimal(&mut Cursor::new(bytes), descending);
        assert_eq!(key(b"\x19", true), Some(Number::NotFinite("Infinity")));
        assert_eq!(key(b"\x35", false), Some(Number::NotFinite("Infinity")));
    }

    #[test]
    fn a_key_has_digits_of_base_100() {
        let key = |bytes| key_decimal(&mut Cursor::new(bytes), false);
        let ten = Decimal { negative: false, coefficient: 1, exponent: 1 };
        assert_eq!(key(b"\x2a\x14\x00"), Some(Number::Finite(ten)));
        for malformed in
            [&b"\x2a\x14"[..], b"\x2a\x00", b"\x2a\x13\x00", b"\x2a\x02\x14\x00", b"\x17\x14\x00"]
        {
            assert_eq!(key(malformed), None);
        }
    }

    #[test]
    fn what_is_malformed_cut_or_very_long_is_refused() {
        for body in [&b""[..], b"\x18\x00", b"\x34", b"\x34\xf7\x01", &[0x29; 17]] {
            assert_eq!(decimal_body(body), None);
        }
    }
}
