//! Numbers as text: what Python's `str`, `repr` and `decimal` print, and nothing of a locale.

use crate::decimals::Decimal;

/// Zeros with more places are Python's: few bytes become much text there.
const ZERO_PLACES: i64 = 64;
/// The greatest exponent, and the most places, with which a key's number without trailing zeros is printed plain.
const PADDING_MAX: i64 = 100;
/// Two decimals of fewer digits are farther apart than two floats.
const TIE_DIGITS: usize = 15;
/// Zeros behind the 5 of a tie; a number that is none has another digit there, or goes to Python for nothing.
const TIE_ZEROS: usize = 8;

/// Writes the digits of a number from the right into a buffer; returns where they begin.
fn digits_of(mut number: u128, buffer: &mut [u8; 40]) -> usize {
    let mut at = buffer.len();
    while number > u128::from(u64::MAX) {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let mut small = number as u64;
    loop {
        at -= 1;
        buffer[at] = b'0' + (small % 10) as u8;
        small /= 10;
        if small == 0 {
            return at;
        }
    }
}

pub fn decimal(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    unsigned(out, number.unsigned_abs());
}

pub fn unsigned(out: &mut Vec<u8>, number: u64) {
    padded(out, number, 1);
}

/// A number with zeros before it, up to a width.
pub fn padded(out: &mut Vec<u8>, number: u64, width: usize) {
    let mut buffer = [b'0'; 40];
    let at = digits_of(u128::from(number), &mut buffer);
    out.extend_from_slice(&buffer[at.min(buffer.len() - width)..]);
}

/// What Python's `str(Decimal)` prints, but zeros plain. Refuses a zero of very many places.
pub fn decimal_text(out: &mut Vec<u8>, value: Decimal) -> Option<()> {
    if value.coefficient == 0 && value.exponent < -ZERO_PLACES {
        return None;
    }
    let mut buffer = [b'0'; 40];
    let at = digits_of(value.coefficient, &mut buffer);
    scientific(out, value.negative, &buffer[at..], value.exponent);
    Some(())
}

/// A decimal without trailing zeros, in plain form; zero without a sign. Refuses an exponent of which Python prints
/// another form.
pub fn plain_decimal_text(out: &mut Vec<u8>, mut value: Decimal) -> Option<()> {
    if value.coefficient == 0 {
        out.push(b'0');
        return Some(());
    }
    while value.coefficient.is_multiple_of(10) {
        (value.coefficient, value.exponent) = (value.coefficient / 10, value.exponent + 1);
    }
    let zeros = usize::try_from(value.exponent).unwrap_or(0);
    if value.exponent.abs() > PADDING_MAX {
        return None;
    }
    let mut buffer = [b'0'; 40];
    let at = digits_of(value.coefficient, &mut buffer);
    if value.negative {
        out.push(b'-');
    }
    pointed(out, &buffer[at..], value.exponent.min(0) + (buffer.len() - at) as i64);
    out.resize(out.len() + zeros, b'0');
    Some(())
}

/// A FLOAT: its shortest digits as a decimal without trailing zeros (`json_text.float_text`). Refuses one that lies
/// in the middle of two such texts.
pub fn float_text(out: &mut Vec<u8>, value: f64) -> Option<()> {
    if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
        return Some(());
    }
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
        return Some(());
    }
    let shortest = format!("{:e}", value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: Vec<u8> = mantissa.bytes().filter(|byte| *byte != b'.').collect();
    if digits.len() >= TIE_DIGITS && is_tie(value.abs(), digits.len()) {
        return None;
    }
    let exponent = exponent.parse::<i64>().unwrap_or(0) - (digits.len() as i64 - 1);
    scientific(out, value.is_sign_negative(), &digits, exponent);
    Some(())
}

/// Whether a number lies in the middle of two decimals of so many digits: Python takes the even one, Rust the
/// greater.
fn is_tie(value: f64, digits: usize) -> bool {
    let exact = format!("{value:.*e}", digits + TIE_ZEROS);
    let mantissa = exact.split_once('e').map_or(exact.as_str(), |(mantissa, _)| mantissa);
    mantissa.bytes().filter(|byte| *byte != b'.').skip(digits).eq(*b"500000000")
}

/// Digits times ten to an exponent: plain where Python's `decimal` is plain, and for zeros with places.
fn scientific(out: &mut Vec<u8>, negative: bool, digits: &[u8], exponent: i64) {
    if negative {
        out.push(b'-');
    }
    let count = digits.len() as i64;
    let left = exponent + count;
    let plain = exponent <= 0 && (left > -6 || digits == b"0");
    let point = if plain { left } else { 1 };
    pointed(out, digits, point);
    if left != point {
        out.push(b'E');
        if left > point {
            out.push(b'+');
        }
        decimal(out, left - point);
    }
}

/// Digits with a point behind so many of them. None stands behind the last one.
fn pointed(out: &mut Vec<u8>, digits: &[u8], point: i64) {
    if point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits);
    } else if point >= digits.len() as i64 {
        out.extend_from_slice(digits);
    } else {
        out.extend_from_slice(&digits[..point as usize]);
        out.push(b'.');
        out.extend_from_slice(&digits[point as usize..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> String {
        let mut out = vec![];
        float_text(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn number(negative: bool, coefficient: u128, exponent: i64) -> String {
        let mut out = vec![];
        decimal_text(&mut out, Decimal { negative, coefficient, exponent }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_print_as_decimals_without_trailing_zeros() {
        for (value, text) in [
            (100.0, "1E+2"),
            (0.1, "0.1"),
            (1e-7, "1E-7"),
            (0.000_01, "0.00001"),
            (-0.0, "-0"),
            (1234.5, "1234.5"),
            (123_456_789_012_345_680.0, "1.2345678901234568E+17"),
            (5e-324, "5E-324"),
            (f64::NEG_INFINITY, "\"-Infinity\""),
            (f64::NAN, "\"NaN\""),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn a_float_between_two_shortest_texts_is_refused() {
        for value in [524_289.0 / 65_536.0, -2_879_452_090_733_081.0 / 4.0] {
            assert!(float_text(&mut vec![], value).is_none());
        }
        assert_eq!(float(0.125), "0.125");
        assert_eq!(float(719_863_022_683_270.5), "719863022683270.5");
    }

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(number(false, 150, -2), "1.50");
        assert_eq!(number(true, 1, 3), "-1E+3");
        assert_eq!(number(false, 1, -7), "1E-7");
        assert_eq!(number(false, 0, -7), "0.0000000");
        assert_eq!(number(false, 0, 2), "0E+2");
        assert_eq!(number(false, u128::from(u64::MAX) * 10, 0), "184467440737095516150");
    }

    #[test]
    fn numbers_of_keys_are_plain_and_have_no_zeros_behind_them() {
        let plain = |negative, coefficient, exponent| {
            let mut out = vec![];
            plain_decimal_text(&mut out, Decimal { negative, coefficient, exponent })?;
            String::from_utf8(out).ok()
        };
        for (coefficient, exponent, text) in
            [(150, -2, "1.5"), (1, 3, "1000"), (1200, 1, "12000"), (1, -7, "0.0000001"), (0, -3, "0")]
        {
            assert_eq!(plain(false, coefficient, exponent).unwrap(), text);
        }
        assert_eq!((plain(true, 100, -2).unwrap(), plain(true, 0, 2).unwrap()), ("-1".into(), "0".into()));
        assert_eq!(plain(false, 1, 100).unwrap().len(), 101);
        assert_eq!(plain(false, 1, -100).unwrap().len(), 102);
        assert_eq!((plain(false, 1, 101), plain(false, 10, 100), plain(false, 1, -101)), (None, None, None));
    }

    #[test]
    fn whole_numbers() {
        let mut out = vec![];
        decimal(&mut out, i64::MIN);
        padded(&mut out, 7, 4);
        unsigned(&mut out, 0);
        assert_eq!(out, b"-922337203685477580800070");
    }

    #[test]
    fn a_zero_of_very_many_places_is_refused() {
        assert!(
            decimal_text(&mut vec![], Decimal { negative: false, coefficient: 0, exponent: -65 }).is_none()
        );
    }
}
