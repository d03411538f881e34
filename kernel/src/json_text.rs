//! JSON text of datums, as `tidegate/changefeed/text/json_text.py` prints it.

use crate::datum::Datum;
use crate::datum_text::{
    bits_text, date_text, inet_text, interval_text, lsn_text, sql_timetz_text, time_text, timestamp_text,
};
use crate::kind::{Kind, Type};
use crate::number_text::{decimal, decimal_text, float_text};

const HEX: &[u8; 16] = b"0123456789abcdef";
const UUID_GROUPS: [(usize, usize); 5] = [(0, 4), (4, 6), (6, 8), (8, 10), (10, 16)];

/// Prints a datum of a column; `null` for NULL. Refuses what only Python prints. `scratch` has text that was printed
/// when the row was read.
#[inline]
pub fn datum_json(out: &mut Vec<u8>, datum: &Datum, of: &Type, scratch: &[u8]) -> Option<()> {
    let kind = of.kind;
    match *datum {
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Datum::Int(days) if kind == Kind::Date => quoted(out, |out| date_text(out, days))?,
        Datum::Int(micros) if kind == Kind::Time => quoted(out, |out| time_text(out, micros))?,
        Datum::Int(value) if kind == Kind::Lsn => in_quotes(out, |out| lsn_text(out, value as u64)),
        Datum::Int(value) if kind == Kind::Oid => in_quotes(out, |out| decimal(out, value)),
        Datum::Int(value) => decimal(out, value),
        Datum::Float(value) => float_text(out, value)?,
        Datum::Decimal(value) => decimal_text(out, value)?,
        Datum::NotFinite(text) => json_string(out, text.as_bytes()),
        Datum::Text(text) => json_string(out, text.as_bytes()),
        Datum::Bytes(bytes) => {
            out.extend_from_slice(b"\"\\\\x");
            hex(out, bytes);
            out.push(b'"');
        }
        Datum::Uuid(bytes) => in_quotes(out, |out| uuid_text(out, &bytes)),
        Datum::Timestamp(seconds, nanos) => {
            out.push(b'"');
            timestamp_text(out, seconds, nanos);
            out.extend_from_slice(if kind == Kind::TimestampTz { b"Z\"" } else { b"\"" });
        }
        Datum::TimeTz(micros, offset) => quoted(out, |out| sql_timetz_text(out, micros, offset))?,
        Datum::Interval(months, days, nanos) => {
            in_quotes(out, |out| interval_text(out, months, days, nanos));
        }
        Datum::Inet { v6, mask, address } => in_quotes(out, |out| inet_text(out, v6, mask, address)),
        Datum::Bits(count, words) => in_quotes(out, |out| bits_text(out, count, words)),
        Datum::Json(start, end) | Datum::Array(_, start, end) => {
            out.extend_from_slice(scratch.get(start..end)?)
        }
    }
    Some(())
}

fn in_quotes(out: &mut Vec<u8>, print: impl Fn(&mut Vec<u8>)) {
    out.push(b'"');
    print(out);
    out.push(b'"');
}

fn quoted(out: &mut Vec<u8>, print: impl Fn(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    out.push(b'"');
    print(out)?;
    out.push(b'"');
    Some(())
}

/// A UUID in its groups.
pub fn uuid_text(out: &mut Vec<u8>, bytes: &[u8]) {
    for (start, end) in UUID_GROUPS {
        if start > 0 {
            out.push(b'-');
        }
        hex(out, &bytes[start..end]);
    }
}

/// A string literal: only `"`, `\` and control characters are escaped.
pub fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| is_escaped(*byte)) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            hex(out, &[byte]);
        }
    }
}

pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decimals::Decimal;

    fn text(datum: Datum, kind: Kind) -> String {
        let mut out = vec![];
        datum_json(&mut out, &datum, &Type::from(kind), b"[1]").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_escape_quotes_backslashes_and_controls_alone() {
        assert_eq!(
            text(Datum::Text("a\"b\\c\n\u{8}\u{c}/\u{7f}é"), Kind::Text),
            "\"a\\\"b\\\\c\\n\\u0008\\u000c/\u{7f}é\""
        );
    }

    #[test]
    fn each_kind_prints_as_cockroachdb_does() {
        assert_eq!(text(Datum::Null, Kind::Other), "null");
        assert_eq!(text(Datum::Bool(false), Kind::Bool), "false");
        assert_eq!(text(Datum::Bytes(b"\x01\xff"), Kind::Bytes), "\"\\\\x01ff\"");
        assert_eq!(text(Datum::Uuid([0x12; 16]), Kind::Uuid), "\"12121212-1212-1212-1212-121212121212\"");
        assert_eq!(text(Datum::Int(0), Kind::Date), "\"1970-01-01\"");
        assert_eq!(text(Datum::Int(0), Kind::Time), "\"00:00:00\"");
        assert_eq!(text(Datum::Timestamp(0, 0), Kind::TimestampTz), "\"1970-01-01T00:00:00Z\"");
        let value = Decimal { negative: false, coefficient: 150, exponent: -2 };
        assert_eq!(text(Datum::Decimal(value), Kind::Decimal), "1.50");
        assert_eq!(text(Datum::NotFinite("NaN"), Kind::Decimal), "\"NaN\"");
        assert_eq!(text(Datum::Int(7), Kind::Oid), "\"7\"");
        assert_eq!(text(Datum::Int(0x16_b374_d848), Kind::Lsn), "\"16/B374D848\"");
        assert_eq!(text(Datum::Array(b"", 0, 3), Kind::Array), "[1]");
    }
}
