//! The frame of a value, as `tidegate/rows/value_frame.py` reads it.

use crate::crc32::crc32;

const TAG: usize = 4;
const EXTENDED: u8 = 0x65;
const TUPLE: u8 = 10;

/// The content of a stored value.
#[derive(Debug, PartialEq)]
pub enum Content<'a> {
    Deleted,
    /// The body of a row's tuple.
    Tuple(&'a [u8]),
}

/// Reads a stored value. Refuses what is cut, damaged, or no row.
pub fn content<'a>(key: &[u8], stored: &'a [u8]) -> Option<Content<'a>> {
    let value = ordinary(stored)?;
    if value.is_empty() {
        return Some(Content::Deleted);
    }
    let (checksum, body) = value.split_at_checked(TAG)?;
    if body.first() != Some(&TUPLE) {
        return None;
    }
    if checksum != [0; 4] && crc32(&[key, body]).max(1).to_be_bytes() != checksum {
        return None;
    }
    Some(Content::Tuple(&body[1..]))
}

fn ordinary(stored: &[u8]) -> Option<&[u8]> {
    if stored.is_empty() {
        return Some(stored);
    }
    if *stored.get(TAG)? != EXTENDED {
        return Some(stored);
    }
    let header = u32::from_be_bytes(stored[..TAG].try_into().ok()?);
    stored.get((TAG + 1).checked_add(header as usize)?..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_behind_a_header_is_a_deletion() {
        assert_eq!(content(b"k", b""), Some(Content::Deleted));
        assert_eq!(content(b"k", b"\0\0\0\x02\x65\x18\x01"), Some(Content::Deleted));
    }

    #[test]
    fn a_checksum_that_is_set_is_compared() {
        let sum = crc32(&[b"key", b"\x0a\x13\x02"]).to_be_bytes();
        let value = [&sum[..], b"\x0a\x13\x02"].concat();
        assert_eq!(content(b"key", &value), Some(Content::Tuple(b"\x13\x02")));
        assert_eq!(content(b"kez", &value), None);
        assert_eq!(content(b"kez", b"\0\0\0\0\x0a\x13\x02"), Some(Content::Tuple(b"\x13\x02")));
    }

    #[test]
    fn what_is_cut_or_no_tuple_is_refused() {
        for value in
            [&b"\0"[..], b"\0\0\0\0", b"\0\0\0\0\x01\x02", b"\0\0\0\x09\x65\x18", b"\0\0\0\x01\x65\x18\x01"]
        {
            assert_eq!(content(b"k", value), None);
        }
    }
}
