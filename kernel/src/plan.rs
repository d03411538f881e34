//! What a partition wants to be written, as Python tells it before the first batch and after each change
//! (`tidegate/kernel/plan.py` writes it, `tidegate/processor/feeds` decides it).

use crate::connect::Place;
use crate::cursor::Cursor;
use crate::kind::{Kind, Type};
use crate::table_codec::{Column, KeyPart, TableCodec, COLUMN_ID_MAX};
use crate::template::{Part, Print, Slot, Template};

/// Wall time and logical part.
pub type Timestamp = (i64, i64);

/// The most columns, tables and lanes: a plan with more is Python's.
const COUNT_MAX: i64 = 1 << 20;

/// The tables whose rows feeds want, by rising id.
#[derive(Default)]
pub struct Plan {
    pub tables: Vec<Table>,
    /// Whether some lane needs the row before: only then messages have previous values.
    pub previous: bool,
}

pub struct Table {
    pub id: u64,
    /// Nobody wants a version at or below it.
    pub start: Timestamp,
    /// What the table's keys begin with, behind the tenant.
    pub prefix: Vec<u8>,
    /// The descriptor versions, by rising modification time.
    pub versions: Vec<TableVersion>,
}

pub struct TableVersion {
    pub modified: Timestamp,
    /// `None`: Python reads the rows of this version.
    pub rows: Option<Rows>,
}

/// How the rows of one table version are read, and in which lanes they are written.
pub struct Rows {
    pub index: Vec<u8>,
    pub codec: TableCodec,
    pub lanes: Vec<Lane>,
}

/// The records of one table version for one feed.
pub struct Lane {
    pub number: u32,
    pub start: Timestamp,
    pub partitions: u32,
    /// Python writes a row whose key and value have more bytes together.
    pub max_bytes: i64,
    /// Whether a record without a value follows that of a deletion.
    pub tombstones: bool,
    pub key: Template,
    pub deleted_key: Template,
    /// The value of a row; with `replaced` that of a new one.
    pub row: Template,
    /// The value of a deletion; with `replaced` that of a deletion where no row was.
    pub deletion: Template,
    /// `Some`: the lane needs to know the row before.
    pub replaced: Option<Replaced>,
}

/// The values of a row that replaced another one, and of a deletion that removed one.
pub struct Replaced {
    pub updated: Template,
    pub deleted: Template,
}

impl Table {
    /// The version that governs rows written at a time.
    pub fn at(&self, time: Timestamp) -> Option<&Rows> {
        let after = self.versions.partition_point(|version| version.modified <= time);
        self.versions[..after].last()?.rows.as_ref()
    }
}

/// Reads a plan. `None`: the bytes are no plan.
pub fn read(bytes: &[u8]) -> Option<Plan> {
    let mut reader = Reader(Cursor::new(bytes));
    let previous = reader.flag()?;
    let tables = reader.list(Reader::table)?;
    (!reader.0.more()).then_some(Plan { tables, previous })
}

/// Integers of eight bytes, little endian; bytes and lists behind their counts.
struct Reader<'a>(Cursor<'a>);

impl Reader<'_> {
    fn number(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.0.take(8)?.try_into().ok()?))
    }

    fn count(&mut self) -> Option<usize> {
        let count = self.number()?;
        usize::try_from(count).ok().filter(|_| count <= COUNT_MAX)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let size = self.count()?;
        Some(self.0.take(size)?.to_vec())
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn time(&mut self) -> Option<Timestamp> {
        Some((self.number()?, self.number()?))
    }

    fn kind(&mut self) -> Option<Kind> {
        Kind::of(self.number()?)
    }

    fn column_type(&mut self) -> Option<Type> {
        Some(Type {
            kind: self.kind()?,
            element: self.kind()?,
            precision: self.number()?,
            scale: self.number()?,
            labels: self.labels()?,
        })
    }

    /// The labels of an enum, by their bytes.
    fn labels(&mut self) -> Option<Vec<(Vec<u8>, String)>> {
        let mut labels =
            self.list(|reader| Some((reader.bytes()?, String::from_utf8(reader.bytes()?).ok()?)))?;
        labels.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        labels.is_sorted_by(|(one, _), (next, _)| one < next).then_some(labels)
    }

    fn key_part(&mut self) -> Option<KeyPart> {
        Some(KeyPart { of: self.column_type()?, slot: self.count()?, descending: self.flag()? })
    }

    fn table(&mut self) -> Option<Table> {
        Some(Table {
            id: u64::try_from(self.number()?).ok()?,
            start: self.time()?,
            prefix: self.bytes()?,
            versions: self.list(Self::version)?,
        })
    }

    fn version(&mut self) -> Option<TableVersion> {
        let modified = self.time()?;
        let rows = if self.flag()? { Some(self.rows()?) } else { None };
        Some(TableVersion { modified, rows })
    }

    fn rows(&mut self) -> Option<Rows> {
        let index = self.bytes()?;
        let slots = self.count()?;
        let composite = self.flag()?;
        let key = self.list(Self::key_part)?;
        let columns = self.columns()?;
        let lanes = self.list(Self::lane)?;
        Some(Rows { index, codec: TableCodec { key, columns, slots, composite }, lanes })
    }

    /// Columns in the order of their slots, by rising ids.
    fn columns(&mut self) -> Option<Vec<Column>> {
        let mut columns =
            self.list(|reader| Some(Column { id: reader.count()?, slot: 0, of: reader.column_type()? }))?;
        for (slot, column) in columns.iter_mut().enumerate() {
            column.slot = slot;
        }
        columns.sort_unstable_by_key(|column| column.id);
        let is_good = columns.is_sorted_by(|one, next| one.id < next.id)
            && columns.last().is_none_or(|last| last.id <= COLUMN_ID_MAX);
        is_good.then_some(columns)
    }

    fn lane(&mut self) -> Option<Lane> {
        Some(Lane {
            number: u32::try_from(self.count()?).ok()?,
            start: self.time()?,
            partitions: u32::try_from(self.number()?).ok().filter(|count| *count > 0)?,
            max_bytes: self.number()?,
            tombstones: self.flag()?,
            key: self.template()?,
            deleted_key: self.template()?,
            row: self.template()?,
            deletion: self.template()?,
            replaced: if self.flag()? { Some(self.replaced()?) } else { None },
        })
    }

    fn replaced(&mut self) -> Option<Replaced> {
        Some(Replaced { updated: self.template()?, deleted: self.template()? })
    }

    fn template(&mut self) -> Option<Template> {
        let slots = self.list(|reader| Some((reader.bytes()?, reader.slot()?)))?;
        Some(Template { slots, last: self.bytes()? })
    }

    fn slot(&mut self) -> Option<Slot> {
        let part = match self.number()? {
            0 => Part::Key,
            1 => Part::Values,
            2 => Part::Previous,
            _ => return None,
        };
        let at = self.count()?;
        let (print, of) = (self.number()?, self.column_type()?);
        let print = match print {
            0 => Print::Json(of),
            1 => Print::Hlc,
            2 => Print::WallNanos,
            3 => Print::WallMillis,
            4 => Print::Avro(of),
            5 => Print::AvroHlc,
            6 => Print::AvroWallNanos,
            7 => Print::AvroWallMillis,
            8 => Print::Connect(of, Place::Column),
            9 => Print::Connect(of, Place::NullableKey),
            10 => Print::Connect(of, Place::Key),
            _ => return None,
        };
        Some(Slot { part, at, print })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_version_at_or_below_a_time_governs() {
        let version = |wall, known: bool| {
            let codec = TableCodec { key: vec![], columns: vec![], slots: 0, composite: false };
            TableVersion {
                modified: (wall, 0),
                rows: known.then(|| Rows { index: vec![], codec, lanes: vec![] }),
            }
        };
        let table = Table {
            id: 1,
            start: (0, 0),
            prefix: vec![],
            versions: vec![version(5, true), version(9, false)],
        };
        assert!(table.at((4, 9)).is_none());
        assert!(table.at((5, 0)).is_some());
        assert!(table.at((9, 0)).is_none());
    }

    #[test]
    fn columns_stand_by_their_ids_and_take_no_room_for_others() {
        let numbers = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let read = |ids: &[usize]| {
            let mut bytes: Vec<u8> = numbers(&[ids.len() as i64]);
            for id in ids {
                bytes.extend::<Vec<u8>>(numbers(&[*id as i64, 2, 0, 64, 0, 0]));
            }
            Reader(Cursor::new(&bytes)).columns()
        };
        let found = read(&[COLUMN_ID_MAX, 1, 7]).unwrap();
        let places: Vec<_> = found.iter().map(|column| (column.id, column.slot)).collect();
        assert_eq!(places, [(1, 1), (7, 2), (COLUMN_ID_MAX, 0)]);
        assert!(found.capacity() < 16);
        assert!(read(&[COLUMN_ID_MAX + 1]).is_none());
        assert!(read(&[3, 1, 3]).is_none());
    }

    #[test]
    fn labels_stand_by_their_bytes() {
        let read = |physical: &[u8]| {
            let mut bytes = (physical.len() as i64).to_le_bytes().to_vec();
            for byte in physical {
                for text in [vec![*byte], byte.to_string().into_bytes()] {
                    bytes.extend((text.len() as i64).to_le_bytes());
                    bytes.extend(text);
                }
            }
            Reader(Cursor::new(&bytes)).labels()
        };
        let label = |byte: u8| (vec![byte], byte.to_string());
        assert_eq!(read(&[9, 200, 1]).unwrap(), [label(1), label(9), label(200)]);
        assert!(read(&[9, 1, 9]).is_none());
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(read(&[]).is_none());
        assert!(read(&[0; 16]).is_some());
        assert!(read(&[0; 17]).is_none());
        assert!(read(&[1; 16]).is_none());
        assert!(read(&i64::MAX.to_le_bytes()).is_none());
        assert!(read(&(-1i64).to_le_bytes()).is_none());
    }
}
