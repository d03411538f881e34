//! Arrays in values, as `tidegate/rows/valueside/arrays.py` reads them, and as JSON.

use crate::cursor::Cursor;
use crate::datum::{element_wire_type, plain_datum, wire, Datum};
use crate::json_text::datum_json;
use crate::kind::{Kind, Type};
use crate::row::TEXT_MAX;
use crate::varints::length;

/// Longer arrays are Python's, which bounds their text.
const ELEMENTS_MAX: usize = 1 << 16;
const ONE_DIMENSION: u8 = 1;
const HAS_NULLS: u8 = 0x10;
const EXTENDED: u8 = 15;

/// The elements of an array.
pub struct Elements<'a> {
    pub count: usize,
    cursor: Cursor<'a>,
    of: &'a Type,
    wire_type: u8,
    nulls: &'a [u8],
    number: usize,
}

impl<'a> Elements<'a> {
    pub fn new(payload: &'a [u8], of: &'a Type) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        let header = cursor.byte()?;
        if header & !HAS_NULLS != ONE_DIMENSION {
            return None;
        }
        let expected = element_wire_type(of.element)?;
        if !is_of(wire_type(&mut cursor)?, expected) {
            return None;
        }
        let count = length(&mut cursor)?;
        if count > ELEMENTS_MAX {
            return None;
        }
        let nulls = if header & HAS_NULLS == 0 { &[][..] } else { cursor.take(count.div_ceil(8))? };
        Some(Elements { count, cursor, of, wire_type: expected, nulls, number: 0 })
    }

    pub fn next(&mut self) -> Option<Datum<'a>> {
        let number = self.number;
        self.number += 1;
        let is_null = self.nulls.get(number / 8).is_some_and(|byte| byte >> (number % 8) & 1 == 1);
        if is_null {
            return Some(Datum::Null);
        }
        element_datum(&mut self.cursor, self.of, self.wire_type)
    }

    /// Requires that nothing follows the elements.
    pub fn finish(&self) -> Option<()> {
        (!self.cursor.more()).then_some(())
    }
}

/// The type of an array's elements.
pub fn element_type(of: &Type) -> Type {
    Type { kind: of.element, element: Kind::Other, precision: of.precision, scale: of.scale, labels: vec![] }
}

/// Appends the JSON text of an array to a row's scratch. Refuses one that makes the scratch too long.
pub fn array_json(out: &mut Vec<u8>, payload: &[u8], of: &Type) -> Option<()> {
    let (mut elements, element) = (Elements::new(payload, of)?, element_type(of));
    out.push(b'[');
    for number in 0..elements.count {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        datum_json(out, &elements.next()?, &element, &[])?;
        if out.len() > TEXT_MAX {
            return None;
        }
    }
    out.push(b']');
    elements.finish()
}

fn wire_type(cursor: &mut Cursor) -> Option<u8> {
    let low = (length(cursor)? & usize::from(EXTENDED)) as u8;
    if low != EXTENDED {
        return Some(low);
    }
    u8::try_from(length(cursor)?).ok()
}

fn is_of(found: u8, expected: u8) -> bool {
    found == expected || (found == wire::FALSE && expected == wire::TRUE)
}

fn element_datum<'a>(cursor: &mut Cursor<'a>, of: &'a Type, wire_type: u8) -> Option<Datum<'a>> {
    if of.element != Kind::Bool {
        return plain_datum(cursor, of.element, wire_type, &of.labels);
    }
    match cursor.byte()? {
        wire::TRUE => Some(Datum::Bool(true)),
        wire::FALSE => Some(Datum::Bool(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(element: Kind, payload: &[u8]) -> Option<String> {
        let mut out = vec![];
        array_json(&mut out, payload, &Type { kind: Kind::Array, element, ..Type::default() })?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn elements_stand_behind_the_bitmap_of_nulls() {
        assert_eq!(text(Kind::Int, b"\x11\x03\x03\x02\x02\x04").unwrap(), "[1, null, 2]");
        assert_eq!(text(Kind::Text, b"\x01\x06\x01\x01a").unwrap(), "[\"a\"]");
        assert_eq!(text(Kind::Bool, b"\x01\x0b\x02\x0a\x0b").unwrap(), "[true, false]");
        assert_eq!(text(Kind::TimeTz, b"\x01\x0f\x12\x01\x00\x00").unwrap(), "[\"00:00:00+00\"]");
        assert_eq!(text(Kind::Int, b"\x01\x03\x00").unwrap(), "[]");
    }

    #[test]
    fn an_array_whose_text_is_too_long_is_refused_at_the_element_that_makes_it_so() {
        let labels = vec![(b"x".to_vec(), "l".repeat(1 << 20))];
        let of = Type { kind: Kind::Array, element: Kind::Enum, labels, ..Type::default() };
        for (count, is_taken) in [(15, true), (16, false), (100, false)] {
            let payload = [&[1, 6, count as u8][..], &b"\x01x".repeat(count)].concat();
            let mut out = vec![];
            assert_eq!(array_json(&mut out, &payload, &of).is_some(), is_taken);
            assert!(out.len() < TEXT_MAX + (2 << 20));
            let mut full = vec![0; TEXT_MAX - (1 << 20)]; // text of other columns of the row
            assert_eq!(array_json(&mut full, &payload, &of), None);
        }
    }

    #[test]
    fn malformed_arrays_are_refused() {
        let good = b"\x11\x03\x03\x02\x02\x04";
        for end in 0..good.len() {
            assert_eq!(text(Kind::Int, &good[..end]), None);
        }
        assert_eq!(text(Kind::Int, b"\x11\x03\x03\x02\x02\x04\x04"), None);
        assert_eq!(text(Kind::Int, b"\x02\x03\x00"), None);
        assert_eq!(text(Kind::Int, b"\x21\x03\x00"), None);
        assert_eq!(text(Kind::Text, b"\x01\x03\x00"), None);
        assert_eq!(text(Kind::Json, b"\x01\x0f\x0f\x00"), None);
    }
}
