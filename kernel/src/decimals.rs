//! Decimals in values, as `tidegate/rows/valueside/decimals.py` reads them.

use crate::cursor::Cursor;
use crate::integers::uvarint_asc;

/// Longer coefficients and larger exponents are refused: no real decimal has them.
const COEFFICIENT_BYTES: usize = 15;
const POINT_MAX: u64 = 5_000;

/// A finite number: the coefficient times ten to the exponent, and its sign, which zero has too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal {
    pub negative: bool,
    pub coefficient: u128,
    pub exponent: i64,
}

pub fn decimal_body(body: &[u8]) -> Option<Decimal> {
    let mut cursor = Cursor::new(body);
    let (negative, direction) = match cursor.byte()? {
        0x1a => (true, 1),
        0x25 => (true, 0),
        0x26 => (true, -1),
        0x27 if body.len() == 1 => return Some(Decimal { negative: false, coefficient: 0, exponent: 0 }),
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
    Some(Decimal { negative, coefficient, exponent: direction * point as i64 - count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_kept() {
        let read = decimal_body(b"\x34\x89\x96");
        assert_eq!(read, Some(Decimal { negative: false, coefficient: 150, exponent: -2 }));
    }

    #[test]
    fn zero_has_a_form_of_its_own() {
        assert_eq!(decimal_body(b"\x27"), Some(Decimal { negative: false, coefficient: 0, exponent: 0 }));
        assert_eq!(decimal_body(b"\x27\x01"), None);
    }

    #[test]
    fn what_is_not_finite_cut_or_very_long_is_refused() {
        for body in [&b""[..], b"\x18", b"\x34", b"\x34\xf7\x01", &[0x29; 17]] {
            assert_eq!(decimal_body(body), None);
        }
    }
}
