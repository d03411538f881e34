//! A key and a value as a row's datums, as `tidegate/rows/table_codec.py` and `valueside/tuples.py` read them.

use crate::cursor::Cursor;
use crate::datum::{skip_datum, value_datum, Datum};
use crate::key_datum::key_datum;
use crate::kind::Type;
use crate::table_key::FAMILY_ZERO;
use crate::value_frame::{content, Content};
use crate::varints::length;

/// Greater column ids are Python's.
pub const COLUMN_ID_MAX: usize = 1 << 16;
const EXTENDED: u8 = 15;

/// The codec of one table version.
pub struct TableCodec {
    /// The key's columns in index order.
    pub key: Vec<KeyPart>,
    /// By rising ids, each of which stands once. A list by id would have room for ids that are no columns.
    pub columns: Vec<Column>,
    pub slots: usize,
    /// Whether a datum of the key may stand in the value too, in a form that says more.
    pub composite: bool,
}

/// A column of the value.
pub struct Column {
    pub id: usize,
    pub slot: usize,
    pub of: Type,
}

/// A column of the key.
pub struct KeyPart {
    pub of: Type,
    pub slot: usize,
    pub descending: bool,
}

/// The datums of one row; a buffer that is used again for the next one.
#[derive(Default)]
pub struct RowBuffer<'a> {
    pub key: Vec<Datum<'a>>,
    pub values: Vec<Datum<'a>>,
    /// The text of datums that have no form of their own.
    pub scratch: Vec<u8>,
}

impl TableCodec {
    /// Reads a row into `row`; returns whether it is there, or deleted. The key's columns begin at `start`.
    pub fn decode<'a>(
        &'a self,
        key: &'a [u8],
        start: usize,
        stored: &'a [u8],
        row: &mut RowBuffer<'a>,
    ) -> Option<bool> {
        row.key.clear();
        row.values.clear();
        row.values.resize(self.slots, Datum::Null);
        row.scratch.clear();
        let mut cursor = Cursor::starting_at(key, start);
        for part in &self.key {
            let datum = key_datum(&mut cursor, &part.of, part.descending)?;
            row.key.push(datum);
            *row.values.get_mut(part.slot)? = datum;
        }
        if cursor.rest() != FAMILY_ZERO {
            return None;
        }
        match content(key, stored)? {
            Content::Deleted => Some(false),
            Content::Tuple(body) => {
                self.read_tuple(body, &mut row.values, &mut row.scratch)?;
                if self.composite {
                    self.read_key_again(row)?;
                }
                Some(true)
            }
        }
    }

    /// Takes the key's datums as the value has them. Refuses NULL.
    fn read_key_again(&self, row: &mut RowBuffer) -> Option<()> {
        for (datum, part) in row.key.iter_mut().zip(&self.key) {
            *datum = *row.values.get(part.slot).filter(|datum| **datum != Datum::Null)?;
        }
        Some(())
    }

    fn read_tuple<'a>(
        &'a self,
        body: &'a [u8],
        values: &mut [Datum<'a>],
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let mut cursor = Cursor::new(body);
        let mut id = 0;
        let mut columns = &self.columns[..]; // those that may still come
        while cursor.more() {
            let tag = length(&mut cursor)?;
            let mut wire_type = (tag & usize::from(EXTENDED)) as u8;
            id += tag >> 4;
            if id > COLUMN_ID_MAX {
                return None;
            }
            if wire_type == EXTENDED {
                wire_type = u8::try_from(length(&mut cursor)?).ok()?;
            }
            columns = from(columns, id);
            match columns.first() {
                Some(column) if column.id == id => {
                    *values.get_mut(column.slot)? = value_datum(&mut cursor, &column.of, wire_type, scratch)?
                }
                _ => skip_datum(&mut cursor, wire_type)?,
            }
        }
        Some(())
    }
}

/// The columns from an id on. It is mostly that of the first one, or of the second.
#[inline]
fn from(columns: &[Column], id: usize) -> &[Column] {
    match columns {
        [first, ..] if first.id >= id => columns,
        [_, rest @ ..] if rest.first().is_none_or(|second| second.id >= id) => rest,
        _ => &columns[columns.partition_point(|column| column.id < id)..],
    }
}

#[cfg(test)]
impl KeyPart {
    pub fn of(kind: crate::kind::Kind, slot: usize) -> Self {
        KeyPart { of: kind.into(), slot, descending: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn codec() -> TableCodec {
        let column = |id, slot, kind: Kind| Column { id, slot, of: kind.into() };
        let columns = vec![column(1, 0, Kind::Int), column(2, 1, Kind::Text), column(4, 2, Kind::Other)];
        TableCodec { key: vec![KeyPart::of(Kind::Int, 0)], columns, slots: 3, composite: false }
    }

    fn read<'a>(key: &'a [u8], stored: &'a [u8]) -> Option<(bool, Vec<Datum<'a>>)> {
        let mut row = RowBuffer::default();
        let codec = Box::leak(Box::new(codec()));
        let present = codec.decode(key, 2, stored, &mut row)?;
        Some((present, row.values))
    }

    #[test]
    fn a_composite_key_is_as_the_value_has_it() {
        let of = Type::from(Kind::Float);
        let key = vec![KeyPart { of: of.clone(), slot: 0, descending: false }];
        let codec =
            TableCodec { key, columns: vec![Column { id: 1, slot: 0, of }], slots: 1, composite: true };
        let mut row = RowBuffer::default();
        let zero = b"\0\0\0\0\x0a\x14\x80\0\0\0\0\0\0\0";
        assert_eq!(codec.decode(b"\xf1\x89\x04\x88", 2, zero, &mut row), Some(true));
        assert!(matches!(row.key[0], Datum::Float(value) if value.is_sign_negative()));
        assert_eq!(codec.decode(b"\xf1\x89\x04\x88", 2, b"\0\0\0\0\x0a\x11", &mut row), None);
    }

    #[test]
    fn columns_come_by_the_differences_of_their_ids() {
        let row = read(b"\xf1\x89\x8f\x88", b"\0\0\0\0\x0a\x26\x02hi\x13\x02");
        assert_eq!(row, Some((true, vec![Datum::Int(7), Datum::Text("hi"), Datum::Null])));
    }

    #[test]
    fn a_column_is_found_wherever_its_id_is() {
        let column = |id| Column { id, slot: 0, of: Kind::Int.into() };
        let ids = [1, 2, 5, 9, 70, COLUMN_ID_MAX];
        let columns: Vec<Column> = ids.into_iter().map(column).collect();
        let first = |id| from(&columns, id).first().map(|column| column.id);
        for id in 0..=COLUMN_ID_MAX {
            assert_eq!(first(id), ids.into_iter().find(|each| *each >= id));
        }
        assert_eq!((first(COLUMN_ID_MAX + 1), from(&[], 1).len()), (None, 0));
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
