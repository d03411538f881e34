//! The fixed parts of a row's key, as `tidegate/rows/table_key.py` and `index_key.py` read them.

use crate::cursor::Cursor;
use crate::integers::uvarint_asc;

const TENANT: u8 = 0xfe;
pub const FAMILY_ZERO: &[u8] = b"\x88";

/// Where the table id begins, and the table. `None`: the key is of no table, so no feed wants it.
pub fn table_of(key: &[u8]) -> Option<(usize, u64)> {
    let mut cursor = Cursor::new(key);
    if key.first() == Some(&TENANT) {
        cursor.at = 1;
        uvarint_asc(&mut cursor)?;
    }
    let start = cursor.at;
    Some((start, uvarint_asc(&mut cursor)?))
}

/// Where a key's columns begin.
pub enum Columns {
    At(usize),
    /// The key is of another index of the table: no row.
    OtherIndex,
}

/// Looks behind the table id, which begins at `start`. `None`: the ids are not written in their shortest form.
pub fn columns_of(key: &[u8], start: usize, table: &[u8], index: &[u8]) -> Option<Columns> {
    let behind = key.get(start..)?.strip_prefix(table)?;
    if behind.starts_with(index) {
        return Some(Columns::At(start + table.len() + index.len()));
    }
    uvarint_asc(&mut Cursor::new(behind))?;
    Some(Columns::OtherIndex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_behind_the_tenant() {
        assert_eq!(table_of(b"\xf1\x89\x8d\x88"), Some((0, 105)));
        assert_eq!(table_of(b"\xfe\x92\xf1\x89"), Some((2, 105)));
        assert_eq!(table_of(b"\xf7\x01\x00\x89"), Some((0, 256)));
    }

    #[test]
    fn keys_of_no_table_have_none() {
        for key in [&b""[..], b"\x12", b"\xfe", b"\xf7\x01", b"\xff"] {
            assert_eq!(table_of(key), None);
        }
    }

    #[test]
    fn another_index_has_no_row() {
        assert!(matches!(columns_of(b"\xf1\x8a\x8d", 0, b"\xf1", b"\x89"), Some(Columns::OtherIndex)));
        assert!(matches!(columns_of(b"\xf1\x89\x8d", 0, b"\xf1", b"\x89"), Some(Columns::At(2))));
        assert!(columns_of(b"\xf1", 0, b"\xf1", b"\x89").is_none());
    }
}
