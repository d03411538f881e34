//! Committed versions as records: what `PartitionRows.decode` (`tidegate/processor/feeds/version_rows.py`) and
//! `Emitter.emit` (`emitter.py`) do for a batch. It keeps no state, so that a version is refused without a trace.

use std::ops::Range;

use crate::number_text::{decimal, unsigned};
use crate::partition::partition_of;
use crate::plan::{Lane, Plan, Rows, Table, Timestamp};
use crate::table_codec::RowBuffer;
use crate::table_key::{columns_of, table_of, Columns};
use crate::template::{Datums, Template};

/// Rows with more text in all lanes together are Python's, which bounds them. So are those with more text in their
/// scratch, or in one template. It is asked at each element and each slot: a few bytes may stand for a label of 1 MiB.
pub const TEXT_MAX: usize = 16 << 20;
/// The most bytes of text and records in an output, beside those of its last version. The memory that the host gives has
/// room for about eight times as much: while a buffer grows, it is there twice.
const OUTPUT_MAX: usize = 128 << 20;

/// A committed version of a key, and the op that committed it.
pub struct Version<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The value that it replaced; `None` where the log does not hold it, or no lane needs it.
    pub previous: Option<&'a [u8]>,
    pub time: Timestamp,
    pub omitted: bool,
    pub range_id: i64,
    /// 0: a scan found the version, and no op.
    pub raft_index: u64,
    pub ordinal: u32,
}

/// What became of a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// No feed wants it.
    Unwanted = 0,
    Taken = 1,
    /// Python has to read it. Nothing of it was written.
    Refused = 2,
}

/// A record of a version. Its bytes end in `Output::text` where the fields say; key, value and the header that
/// names the op follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Record {
    pub version: u32,
    pub lane: u32,
    pub key_end: u32,
    pub value_end: u32,
    pub header_end: u32,
    pub partition: u32,
}

/// The highest time of the versions that were read of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct High {
    pub table: u64,
    pub wall: i64,
    pub logical: i64,
}

/// What a batch gives. Its buffers are used again for the next one.
#[derive(Default)]
pub struct Output {
    pub records: Vec<Record>,
    pub text: Vec<u8>,
    pub fates: Vec<u8>,
    pub highs: Vec<High>,
    /// Its versions make more than an output may have. Then it is of no use, and takes no more.
    pub is_full: bool,
}

impl Output {
    pub fn clear(&mut self) {
        self.is_full = false;
        self.records.clear();
        self.text.clear();
        self.fates.clear();
        self.highs.clear();
    }

    fn raise_high(&mut self, table: u64, time: Timestamp) {
        match self.highs.iter_mut().find(|high| high.table == table) {
            Some(high) => (high.wall, high.logical) = (high.wall, high.logical).max(time),
            None => self.highs.push(High { table, wall: time.0, logical: time.1 }),
        }
    }
}

/// Writes the records of a version, for each lane that wants it. Refuses it for all lanes where one cannot.
pub fn take<'a>(
    plan: &'a Plan,
    number: u32,
    version: &Version<'a>,
    row: &mut RowBuffer<'a>,
    replaced: &mut RowBuffer<'a>,
    output: &mut Output,
) {
    if output.is_full {
        return;
    }
    let (records, text) = (output.records.len(), output.text.len());
    let (fate, high) = match wanted(plan, version) {
        None => (Fate::Unwanted, None),
        Some((table, start)) => match written(table, start, number, version, row, replaced, output) {
            Some(fate) => (fate, Some(table.id)),
            None => (Fate::Refused, None),
        },
    };
    if fate == Fate::Refused {
        output.records.truncate(records);
        output.text.truncate(text);
    }
    if let Some(table) = high {
        output.raise_high(table, version.time);
    }
    output.fates.push(fate as u8);
    output.is_full = output.text.len() + output.records.len() * size_of::<Record>() > OUTPUT_MAX;
}

/// The table of a version that some feed wants, and where the table's id begins in the key.
fn wanted<'p>(plan: &'p Plan, version: &Version) -> Option<(&'p Table, usize)> {
    if version.omitted {
        return None;
    }
    let (start, id) = table_of(version.key)?;
    let at = plan.tables.binary_search_by_key(&id, |table| table.id).ok()?;
    let table = &plan.tables[at];
    (version.time > table.start).then_some((table, start))
}

fn written<'a>(
    table: &'a Table,
    start: usize,
    number: u32,
    version: &Version<'a>,
    row: &mut RowBuffer<'a>,
    replaced: &mut RowBuffer<'a>,
    output: &mut Output,
) -> Option<Fate> {
    let rows = table.at(version.time)?;
    let mut wanting = rows.lanes.iter().filter(|lane| version.time > lane.start).peekable();
    if wanting.peek().is_none() {
        return Some(Fate::Unwanted);
    }
    let needs_previous = wanting.any(|lane| lane.replaced.is_some());
    let columns = match columns_of(version.key, start, &table.prefix, &rows.index)? {
        Columns::OtherIndex => return Some(Fate::Unwanted),
        Columns::At(at) => at,
    };
    let present = rows.codec.decode(version.key, columns, version.value, row)?;
    let was_there = needs_previous && rows.codec.decode(version.key, columns, version.previous?, replaced)?;
    let datums = Datums {
        key: &row.key,
        values: &row.values,
        previous: if was_there { &replaced.values } else { &[] },
        scratch: &row.scratch,
        previous_scratch: &replaced.scratch,
        time: version.time,
    };
    write(rows, Change { present, was_there }, number, version, &datums, output)?;
    Some(Fate::Taken)
}

/// Whether the row is there now, and whether it was before.
#[derive(Clone, Copy)]
struct Change {
    present: bool,
    was_there: bool,
}

impl Change {
    /// The templates of key and value.
    fn templates<'p>(&self, lane: &'p Lane) -> (&'p Template, &'p Template) {
        let replaced = lane.replaced.as_ref().filter(|_| self.was_there);
        match (self.present, replaced) {
            (true, None) => (&lane.key, &lane.row),
            (true, Some(replaced)) => (&lane.key, &replaced.updated),
            (false, None) => (&lane.deleted_key, &lane.deletion),
            (false, Some(replaced)) => (&lane.deleted_key, &replaced.deleted),
        }
    }
}

fn write(
    rows: &Rows,
    change: Change,
    number: u32,
    version: &Version,
    datums: &Datums,
    output: &mut Output,
) -> Option<()> {
    let text = &mut output.text;
    let begin = text.len();
    for lane in rows.lanes.iter().filter(|lane| version.time > lane.start) {
        let start = text.len();
        let (key, value) = change.templates(lane);
        key.fill(text, datums)?;
        let key_end = text.len();
        value.fill(text, datums)?;
        if (text.len() - start) as i64 > lane.max_bytes {
            return None;
        }
        let value_end = text.len();
        source(text, version);
        let record = Record {
            version: number,
            lane: lane.number,
            key_end: u32::try_from(key_end).ok()?,
            value_end: u32::try_from(value_end).ok()?,
            header_end: u32::try_from(text.len()).ok()?,
            partition: partition_of(&text[start..key_end], lane.partitions),
        };
        output.records.push(record);
        if lane.tombstones && !change.present {
            output.records.push(tombstone(text, start..key_end, version, &record)?);
        }
        if text.len() - begin > TEXT_MAX {
            return None;
        }
    }
    Some(())
}

/// Appends key and header of a record without a value, which follows the record of a deletion.
fn tombstone(text: &mut Vec<u8>, key: Range<usize>, version: &Version, of: &Record) -> Option<Record> {
    text.extend_from_within(key);
    let key_end = u32::try_from(text.len()).ok()?;
    source(text, version);
    Some(Record { key_end, value_end: key_end, header_end: u32::try_from(text.len()).ok()?, ..*of })
}

/// Where a row came from: `<range id>/<raft index>/<op ordinal>`; nothing for a version without an op.
fn source(text: &mut Vec<u8>, version: &Version) {
    if version.raft_index != 0 {
        decimal(text, version.range_id);
        text.push(b'/');
        unsigned(text, version.raft_index);
        text.push(b'/');
        unsigned(text, u64::from(version.ordinal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::plan::{Replaced, TableVersion};
    use crate::table_codec::{Column, KeyPart, TableCodec};
    use crate::template::{Part, Print, Slot};

    fn lane(number: u32, start: i64, kind: Kind) -> Lane {
        let around = |before: &[u8], part, at, kind: Kind, last: &[u8]| Template {
            slots: vec![(before.to_vec(), Slot { part, at, print: Print::Json(kind.into()) })],
            last: last.to_vec(),
        };
        let key = || around(b"[", Part::Key, 0, Kind::Int, b"]");
        Lane {
            number,
            start: (start, 0),
            partitions: 4,
            max_bytes: 100,
            tombstones: false,
            key: key(),
            deleted_key: key(),
            row: around(b"{\"a\": ", Part::Values, 1, kind, b"}"),
            deletion: Template { slots: vec![], last: b"{}".to_vec() },
            replaced: None,
        }
    }

    fn plan(lanes: Vec<Lane>) -> Plan {
        let column = |id, slot, kind: Kind| Column { id, slot, of: kind.into() };
        let columns = vec![column(1, 0, Kind::Int), column(2, 1, Kind::Date)];
        let codec = TableCodec { key: vec![KeyPart::of(Kind::Int, 0)], columns, slots: 2, composite: false };
        let rows = Some(Rows { index: b"\x89".to_vec(), codec, lanes });
        let versions = vec![TableVersion { modified: (10, 0), rows }];
        let previous = true;
        Plan { previous, tables: vec![Table { id: 105, start: (5, 0), prefix: b"\xf1".to_vec(), versions }] }
    }

    fn version<'a>(key: &'a [u8], value: &'a [u8], wall: i64) -> Version<'a> {
        Version {
            key,
            value,
            previous: None,
            time: (wall, 0),
            omitted: false,
            range_id: 7,
            raft_index: 3,
            ordinal: 1,
        }
    }

    fn run(plan: &Plan, version: Version) -> Output {
        let mut output = Output::default();
        take(plan, 0, &version, &mut RowBuffer::default(), &mut RowBuffer::default(), &mut output);
        output
    }

    const KEY: &[u8] = b"\xf1\x89\x8f\x88";
    const DAY_ONE: &[u8] = b"\0\0\0\0\x0a\x23\x02";

    #[test]
    fn a_row_is_read_once_and_written_for_each_lane_above_its_start() {
        let output =
            run(&plan(vec![lane(0, 5, Kind::Date), lane(1, 11, Kind::Date)]), version(KEY, DAY_ONE, 11));
        assert_eq!(output.text, b"[7]{\"a\": \"1970-01-02\"}7/3/1");
        assert_eq!(output.records.len(), 1);
        assert_eq!(output.fates, [Fate::Taken as u8]);
        assert_eq!(output.highs, [High { table: 105, wall: 11, logical: 0 }]);
    }

    fn changes(number: u32) -> Lane {
        let shape = |name: &[u8], part| Template {
            slots: vec![(name.to_vec(), Slot { part, at: 1, print: Print::Json(Kind::Date.into()) })],
            last: vec![],
        };
        let replaced =
            Replaced { updated: shape(b"u", Part::Previous), deleted: shape(b"d", Part::Previous) };
        let deletion = Template { slots: vec![], last: b"nothing".to_vec() };
        let lane = lane(number, 5, Kind::Date);
        Lane { replaced: Some(replaced), row: shape(b"c", Part::Values), deletion, tombstones: true, ..lane }
    }

    fn change(value: &'static [u8], previous: Option<&'static [u8]>) -> String {
        let output =
            run(&plan(vec![changes(0)]), Version { previous, raft_index: 0, ..version(KEY, value, 11) });
        assert_eq!(output.records.len() > 1, value.is_empty() && previous.is_some());
        String::from_utf8(output.text).unwrap()
    }

    #[test]
    fn a_change_is_told_by_the_row_before() {
        let day_two = b"\0\0\0\0\x0a\x23\x04";
        assert_eq!(change(DAY_ONE, Some(b"")), "[7]c\"1970-01-02\"");
        assert_eq!(change(DAY_ONE, Some(day_two)), "[7]u\"1970-01-03\"");
        assert_eq!(change(b"", Some(day_two)), "[7]d\"1970-01-03\"[7]");
        assert_eq!(change(b"", Some(b"")), "[7]nothing[7]");
    }

    #[test]
    fn a_row_before_that_is_missing_or_damaged_is_refused_where_a_lane_needs_it() {
        assert_eq!(change(DAY_ONE, None), "");
        assert_eq!(change(DAY_ONE, Some(b"\0")), "");
        let unread = Version { previous: Some(b"\0"), ..version(KEY, DAY_ONE, 11) };
        assert_eq!(run(&plan(vec![lane(0, 5, Kind::Date)]), unread).fates, [Fate::Taken as u8]);
    }

    #[test]
    fn a_row_above_the_limit_of_its_lane_is_refused() {
        let small = Lane { max_bytes: 21, ..lane(0, 5, Kind::Date) };
        assert_eq!(run(&plan(vec![small]), version(KEY, DAY_ONE, 11)).fates, [Fate::Refused as u8]);
        let enough = Lane { max_bytes: 22, ..lane(0, 5, Kind::Date) };
        assert_eq!(run(&plan(vec![enough]), version(KEY, DAY_ONE, 11)).fates, [Fate::Taken as u8]);
    }

    #[test]
    fn a_refused_row_leaves_no_trace_in_any_lane() {
        let infinite = b"\0\0\0\0\x0a\x23\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let output = run(&plan(vec![lane(0, 5, Kind::Date)]), version(KEY, infinite, 11));
        assert_eq!((output.text.len(), output.records.len(), output.highs.len()), (0, 0, 0));
        assert_eq!(output.fates, [Fate::Refused as u8]);
    }

    #[test]
    fn an_output_with_too_much_takes_no_more_until_it_is_cleared() {
        let (plan, mut output) = (plan(vec![lane(0, 5, Kind::Date)]), Output::default());
        let took = |output: &mut Output| {
            let (row, replaced) = (&mut RowBuffer::default(), &mut RowBuffer::default());
            take(&plan, 0, &version(KEY, DAY_ONE, 11), row, replaced, output);
            (output.is_full, output.records.len(), output.fates.len())
        };
        output.text.resize(OUTPUT_MAX - 100, b'x');
        assert_eq!(took(&mut output), (false, 1, 1));
        output.text.resize(OUTPUT_MAX - 48, b'x');
        assert_eq!(took(&mut output), (true, 2, 2));
        assert_eq!(took(&mut output), (true, 2, 2));
        output.clear();
        assert_eq!(took(&mut output), (false, 1, 1));
    }

    #[test]
    fn versions_before_the_first_descriptor_are_refused() {
        assert_eq!(
            run(&plan(vec![lane(0, 5, Kind::Date)]), version(KEY, DAY_ONE, 9)).fates,
            [Fate::Refused as u8]
        );
    }

    #[test]
    fn what_nobody_wants_raises_no_high() {
        let mut omitted = version(KEY, DAY_ONE, 11);
        omitted.omitted = true;
        for unwanted in
            [omitted, version(KEY, DAY_ONE, 5), version(b"\xf2\x89", b"", 11), version(b"\x12", b"", 11)]
        {
            let output = run(&plan(vec![]), unwanted);
            assert_eq!((output.fates, output.highs), (vec![Fate::Unwanted as u8], vec![]));
        }
    }

    #[test]
    fn a_key_of_another_index_has_no_row_but_raises_the_high() {
        let output = run(&plan(vec![lane(0, 5, Kind::Date)]), version(b"\xf1\x8a\x8f\x88", b"", 11));
        assert_eq!((output.fates, output.highs.len()), (vec![Fate::Unwanted as u8], 1));
    }
}
