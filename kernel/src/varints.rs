//! The two integers of values, as `tidegate/rows/valueside/varints.py` reads them.

use crate::cursor::Cursor;

const GROUPS: u32 = 10;

/// LEB128, least significant group first, of 64 bits and ten bytes at most.
pub fn uvarint(cursor: &mut Cursor) -> Option<u64> {
    let mut value = 0;
    for group in 0..GROUPS {
        let byte = cursor.byte()?;
        if group == GROUPS - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * group);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A signed integer, its sign in the lowest bit of a `uvarint`.
pub fn zigzag(cursor: &mut Cursor) -> Option<i64> {
    let value = uvarint(cursor)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Base 128, most significant group first. Lengths and tags that do not fit in 32 bits are refused.
pub fn length(cursor: &mut Cursor) -> Option<usize> {
    let mut value = 0u64;
    for _ in 0..GROUPS {
        let byte = cursor.byte()?;
        value = value << 7 | u64::from(byte & 0x7f);
        if value > u64::from(u32::MAX) {
            return None;
        }
        if byte < 0x80 {
            return usize::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hundred_has_its_groups_in_both_orders() {
        assert_eq!(uvarint(&mut Cursor::new(&[0xac, 0x02])), Some(300));
        assert_eq!(length(&mut Cursor::new(&[0x82, 0x2c])), Some(300));
    }

    #[test]
    fn the_sign_is_the_lowest_bit() {
        assert_eq!(zigzag(&mut Cursor::new(&[2])), Some(1));
        assert_eq!(zigzag(&mut Cursor::new(&[1])), Some(-1));
        let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(zigzag(&mut Cursor::new(&least)), Some(i64::MIN));
    }

    #[test]
    fn what_is_cut_or_has_more_than_64_bits_is_refused() {
        assert_eq!(uvarint(&mut Cursor::new(&[0x80])), None);
        assert_eq!(
            uvarint(&mut Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2])),
            None
        );
        assert_eq!(length(&mut Cursor::new(&[0x80; 11])), None);
    }
}
