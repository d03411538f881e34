//! JSONB payloads as JSON text, as `tidegate/rows/valueside/jsonb.py` reads them and
//! `tidegate/changefeed/text/json_text.py` prints them.

use crate::cursor::Cursor;
use crate::datum::{decimal_bytes, number, text};
use crate::decimals::decimal_body;
use crate::json_text::{datum_json, json_string};
use crate::kind::{Kind, Type};

/// Larger and deeper documents are Python's, which bounds their text.
const BYTES_MAX: usize = 256 << 10;
const DEPTH_MAX: usize = 64;

const ARRAY: u32 = 0x8000_0000;
const OBJECT: u32 = 0x4000_0000;
const SCALAR: u32 = 0x2000_0000;
const CONTAINER_MASK: u32 = 0xe000_0000;
const COUNT_MASK: u32 = 0x1fff_ffff;

const NULL: u32 = 0x0000_0000;
const STRING: u32 = 0x1000_0000;
const NUMBER: u32 = 0x2000_0000;
const FALSE: u32 = 0x3000_0000;
const TRUE: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;
const TYPE_MASK: u32 = 0x7000_0000;
const IS_OFFSET: u32 = 0x8000_0000;
const LENGTH_MASK: u32 = 0x0fff_ffff;
const WORD: usize = 4;

/// Appends the text of a document.
pub fn json_value(out: &mut Vec<u8>, payload: &[u8]) -> Option<()> {
    if payload.len() > BYTES_MAX {
        return None;
    }
    container(out, payload, 0)
}

fn container(out: &mut Vec<u8>, payload: &[u8], depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    let header = word(payload, 0)?;
    let count = (header & COUNT_MASK) as usize;
    match header & CONTAINER_MASK {
        ARRAY => array(out, Entries::new(payload, count)?, count, depth),
        OBJECT => object(out, payload, count, depth),
        SCALAR if count == 0 => {
            let mut entries = Entries::new(payload, 1)?;
            let (kind, data) = entries.next()?;
            entries.finish()?;
            value(out, kind, data, depth)
        }
        _ => None,
    }
}

fn array(out: &mut Vec<u8>, mut entries: Entries, count: usize, depth: usize) -> Option<()> {
    out.push(b'[');
    for number in 0..count {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        let (kind, data) = entries.next()?;
        value(out, kind, data, depth)?;
    }
    out.push(b']');
    entries.finish()
}

/// Members come by their names: an object whose names do not rise is refused, since Python sorts it.
fn object(out: &mut Vec<u8>, payload: &[u8], count: usize, depth: usize) -> Option<()> {
    let mut names = Entries::new(payload, count.checked_mul(2)?)?;
    let mut values = names;
    for _ in 0..count {
        values.next()?;
    }
    let mut last: Option<&[u8]> = None;
    out.push(b'{');
    for _ in 0..count {
        let (kind, name) = names.next()?;
        if kind != STRING || last.is_some_and(|last| last >= name) {
            return None;
        }
        if last.is_some() {
            out.extend_from_slice(b", ");
        }
        last = Some(name);
        json_string(out, text(name)?.as_bytes());
        out.extend_from_slice(b": ");
        let (kind, data) = values.next()?;
        value(out, kind, data, depth)?;
    }
    out.push(b'}');
    values.finish()
}

fn value(out: &mut Vec<u8>, kind: u32, data: &[u8], depth: usize) -> Option<()> {
    match kind {
        STRING => json_string(out, text(data)?.as_bytes()),
        NUMBER => {
            let mut cursor = Cursor::new(data);
            let body = decimal_bytes(&mut cursor)?;
            if cursor.more() {
                return None;
            }
            datum_json(out, &number(decimal_body(body)?), &Type::from(Kind::Decimal), &[])?;
        }
        CONTAINER => container(out, data, depth + 1)?,
        NULL if data.is_empty() => out.extend_from_slice(b"null"),
        FALSE if data.is_empty() => out.extend_from_slice(b"false"),
        TRUE if data.is_empty() => out.extend_from_slice(b"true"),
        _ => return None,
    }
    Some(())
}

fn word(payload: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(payload.get(at..at.checked_add(WORD)?)?.try_into().ok()?))
}

/// The entries of a container: their words, and where the data of the next one begins.
#[derive(Clone, Copy)]
struct Entries<'a> {
    payload: &'a [u8],
    word: usize,
    data: usize,
    start: usize,
}

impl<'a> Entries<'a> {
    fn new(payload: &'a [u8], count: usize) -> Option<Self> {
        let data = count.checked_mul(WORD)?.checked_add(WORD)?;
        (data <= payload.len()).then_some(Entries { payload, word: WORD, data, start: data })
    }

    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        let word = word(self.payload, self.word)?;
        let origin = if word & IS_OFFSET == 0 { self.start } else { self.data };
        let end = origin + (word & LENGTH_MASK) as usize;
        let data = self.payload.get(self.start..end)?;
        (self.word, self.start) = (self.word + WORD, end);
        Some((word & TYPE_MASK, data))
    }

    /// Requires that the data fills the container.
    fn finish(&self) -> Option<()> {
        (self.start == self.payload.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32], data: &[u8]) -> Vec<u8> {
        [words.iter().flat_map(|word| word.to_be_bytes()).collect(), data.to_vec()].concat()
    }

    fn read(payload: &[u8]) -> Option<String> {
        let mut out = vec![];
        json_value(&mut out, payload)?;
        String::from_utf8(out).ok()
    }

    fn document() -> Vec<u8> {
        let array = words(&[ARRAY | 2, IS_OFFSET | TRUE, NUMBER | 4], b"\x03\x34\x89\x96");
        let inner = array.len() as u32;
        words(
            &[OBJECT | 2, IS_OFFSET | STRING | 1, STRING | 1, IS_OFFSET | STRING | 3, CONTAINER | inner],
            &[b"abx", &array[..]].concat(),
        )
    }

    #[test]
    fn objects_arrays_and_scalars() {
        assert_eq!(read(&document()).unwrap(), "{\"a\": \"x\", \"b\": [true, 1.50]}");
        assert_eq!(read(&words(&[SCALAR, NULL], b"")).unwrap(), "null");
        assert_eq!(read(&words(&[ARRAY], b"")).unwrap(), "[]");
        assert_eq!(read(&words(&[OBJECT], b"")).unwrap(), "{}");
    }

    #[test]
    fn names_that_do_not_rise_are_refused() {
        let twice = words(&[OBJECT | 2, STRING | 1, STRING | 1, NULL, NULL], b"aa");
        assert_eq!(read(&twice), None);
    }

    #[test]
    fn cut_long_and_deep_documents_are_refused() {
        let whole = document();
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None);
        }
        assert_eq!(read(&[&whole[..], b"x"].concat()), None);
        assert_eq!(read(&words(&[SCALAR | 1, NULL], b"")), None);
        assert_eq!(read(&words(&[SCALAR, 0x6000_0000], b"")), None);
        assert_eq!(read(&words(&[ARRAY | COUNT_MASK], b"")), None);
        let mut deep = words(&[ARRAY], b"");
        for _ in 0..=DEPTH_MAX {
            deep = words(&[ARRAY | 1, CONTAINER | deep.len() as u32], &deep);
        }
        assert_eq!(read(&deep), None);
    }
}
