//! A key and a value as a row's datums, as `tidegate/rows/table_codec.py` and `valueside/tuples.py` read them.

use crate::cursor::Cursor;
use crate::datum::{key_datum, skip_datum, value_datum, Datum};
use crate::kind::Kind;
use crate::table_key::FAMILY_ZERO;
use crate::value_frame::{content, Content};
use crate::varints::length;

/// Greater column ids are Python's.
pub const COLUMN_ID_MAX: usize = 1 << 16;
const EXTENDED: u8 = 15;

/// The codec of one table version.
pub struct TableCodec {
    /// The kinds and slots of the key's columns, in index order, ascending.
    pub key: Vec<(Kind, usize)>,
    /// By column id: the slot and the kind; `None` for an id that is no column.
    pub columns: Vec<Option<(usize, Kind)>>,
    pub slots: usize,
}

/// The datums of one row; a buffer that is used again for the next one.
#[derive(Default)]
pub struct RowBuffer<'a> {
    pub key: Vec<Datum<'a>>,
    pub values: Vec<Datum<'a>>,
}

impl TableCodec {
    /// Reads a row into `row`; returns whether it is there, or deleted. The key's columns begin at `start`.
    pub fn decode<'a>(
        &self,
        key: &'a [u8],
        start: usize,
        stored: &'a [u8],
        row: &mut RowBuffer<'a>,
    ) -> Option<bool> {
        row.key.clear();
        row.values.clear();
        row.values.resize(self.slots, Datum::Null);
        let mut cursor = Cursor::starting_at(key, start);
        for (kind, slot) in &self.key {
            let datum = key_datum(&mut cursor, *kind)?;
            row.key.push(datum);
            *row.values.get_mut(*slot)? = datum;
        }
        if cursor.rest() != FAMILY_ZERO {
            return None;
        }
        match content(key, stored)? {
            Content::Deleted => Some(false),
            Content::Tuple(body) => {
                self.read_tuple(body, &mut row.values)?;
                Some(true)
            }
        }
    }

    fn read_tuple<'a>(&self, body: &'a [u8], values: &mut [Datum<'a>]) -> Option<()> {
        let mut cursor = Cursor::new(body);
        let mut id = 0;
        while cursor.more() {
            let tag = length(&mut cursor)?;
            let wire_type = (tag & usize::from(EXTENDED)) as u8;
            id += tag >> 4;
            if wire_type == EXTENDED || id > COLUMN_ID_MAX {
                return None;
            }
            match self.columns.get(id) {
                Some(Some((slot, kind))) => {
                    *values.get_mut(*slot)? = value_datum(&mut cursor, *kind, wire_type)?
                }
                _ => skip_datum(&mut cursor, wire_type)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec() -> TableCodec {
        let columns = vec![None, Some((0, Kind::Int)), Some((1, Kind::Text)), None, Some((2, Kind::Other))];
        TableCodec { key: vec![(Kind::Int, 0)], columns, slots: 3 }
    }

    fn read<'a>(key: &'a [u8], stored: &'a [u8]) -> Option<(bool, Vec<Datum<'a>>)> {
        let mut row = RowBuffer::default();
        let present = codec().decode(key, 2, stored, &mut row)?;
        Some((present, row.values))
    }

    #[test]
    fn columns_come_by_the_differences_of_their_ids() {
        let row = read(b"\xf1\x89\x8f\x88", b"\0\0\0\0\x0a\x26\x02hi\x13\x02");
        assert_eq!(row, Some((true, vec![Datum::Int(7), Datum::Text("hi"), Datum::Null])));
    }

    #[test]
    fn an_empty_value_is_a_deletion() {
        assert_eq!(
            read(b"\xf1\x89\x8f\x88", b""),
            Some((false, vec![Datum::Int(7), Datum::Null, Datum::Null]))
        );
    }

    #[test]
    fn a_datum_of_another_kind_and_another_family_are_refused() {
        assert_eq!(read(b"\xf1\x89\x8f\x88", b"\0\0\0\0\x0a\x43\x02"), None);
        assert_eq!(read(b"\xf1\x89\x8f\x89\x89", b""), None);
    }

    #[test]
    fn no_cut_of_a_row_traps() {
        let (key, value) = (b"\xf1\x89\x8f\x88", b"\0\0\0\0\x0a\x26\x02hi\x13\x02");
        for end in 0..key.len() {
            assert_eq!(read(&key[..end], value), None);
        }
        for end in 0..value.len() {
            read(key, &value[..end]);
        }
    }
}
