//! Integers in keys, as `tidegate/rows/keyside/integers.py` reads them.

use crate::cursor::Cursor;

const ZERO: u8 = 0x88;
const SMALL_END: u8 = 0xf5;
const LARGEST: u8 = 0xfd;
const LEAST: u8 = 0x80;

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

pub fn uvarint_asc(cursor: &mut Cursor) -> Option<u64> {
    let marker = cursor.byte()?;
    match marker {
        ZERO..=SMALL_END => Some(u64::from(marker - ZERO)),
        0xf6..=LARGEST => Some(big_endian(cursor.take(usize::from(marker - SMALL_END))?)),
        _ => None,
    }
}

pub fn uvarint_desc(cursor: &mut Cursor) -> Option<u64> {
    let marker = cursor.byte()?;
    if !(LEAST..=ZERO).contains(&marker) {
        return None;
    }
    let bytes = cursor.take(usize::from(ZERO - marker))?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(!byte)))
}

pub fn varint_asc(cursor: &mut Cursor) -> Option<i64> {
    let marker = *cursor.bytes.get(cursor.at)?;
    if marker >= ZERO {
        return i64::try_from(uvarint_asc(cursor)?).ok();
    }
    if marker < LEAST {
        return None;
    }
    cursor.at += 1;
    let size = usize::from(ZERO - marker);
    let magnitude = i128::from(big_endian(cursor.take(size)?));
    i64::try_from(magnitude - (1i128 << (8 * size))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<i64> {
        let mut cursor = Cursor::new(bytes);
        let value = varint_asc(&mut cursor)?;
        assert!(!cursor.more());
        Some(value)
    }

    #[test]
    fn small_large_and_negative_integers() {
        assert_eq!(read(&[0x8d]), Some(5));
        assert_eq!(read(&[0xf7, 0x01, 0x2c]), Some(300));
        assert_eq!(read(&[0x87, 0xff]), Some(-1));
        assert_eq!(read(&[0x80, 0x80, 0, 0, 0, 0, 0, 0, 0]), Some(i64::MIN));
    }

    #[test]
    fn descending_integers_are_complements() {
        let read = |bytes| uvarint_desc(&mut Cursor::new(bytes));
        assert_eq!(read(&[0x88]), Some(0));
        assert_eq!(read(&[0x86, 0xfe, 0xd3]), Some(300));
        assert_eq!(read(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0]), Some(u64::MAX));
        assert_eq!((read(&[0x89]), read(&[0x86, 0])), (None, None));
    }

    #[test]
    fn what_is_cut_or_no_integer_is_refused() {
        assert_eq!(read(&[0xf7, 0x01]), None);
        assert_eq!(read(&[0x12]), None);
        assert_eq!(read(&[0xfe]), None);
        assert_eq!(read(&[0xfd, 0xff, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(read(&[]), None);
    }
}
