//! A batch of records of one log partition: the longest prefix that can be read, the ranges and transactions that it
//! names, and how far plain ranges follow it (`tidegate/kernel/log_message.py` has the other ends of the messages).
//!
//! The host owns all state. It gives what the batch needs of it, and takes back what has changed. So a record that is
//! refused half-way leaves no trace: the state is read again from the message, and followed up to that record.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::entry::{self, Entry, What};
use crate::intents::{Txn, TxnId, Txns};
use crate::log_clock::{Horizon, LogClock, Voice, NANOS_PER_MS};
use crate::op_log::{Kind, Op};
use crate::plan::{Plan, Timestamp};
use crate::range::{Pending, Range, Step};
use crate::row::{self, Output, Version};
use crate::table_codec::RowBuffer;
use crate::wire::Piece;

const NO_TXN: u32 = u32::MAX;

struct Record {
    time_ms: i64,
    /// The number of its range.
    range: u32,
    entry: Entry,
    first_op: u32,
    end_op: u32,
}

/// The plain prefix of a batch, decoded.
#[derive(Default)]
pub struct LogBatch {
    bytes: Vec<u8>,
    records: Vec<Record>,
    ops: Vec<Op>,
    /// For each op the number of its transaction.
    txn_of: Vec<u32>,
    /// Ids of the ranges and of the transactions, by their numbers: in the order in which they are named.
    pub range_ids: Vec<i64>,
    pub txns: Vec<NamedTxn>,
}

/// A transaction of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct NamedTxn {
    pub id: TxnId,
    pub range: u32,
}

impl LogBatch {
    /// How many records the prefix has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Reads `count` records: a column of record times (8 bytes) and one of sizes of values (4); then all keys, of 8
    /// bytes, and all values. `None`: the bytes are no such message.
    pub fn read(bytes: Vec<u8>, count: usize) -> Option<LogBatch> {
        let mut batch = LogBatch { bytes, ..LogBatch::default() };
        let (sizes, keys) = (count.checked_mul(8)?, count.checked_mul(12)?);
        let mut at = count.checked_mul(20)?;
        let mut values = vec![];
        for number in 0..count {
            let size = u32::from_le_bytes(array(&batch.bytes, sizes + number * 4)?);
            values.push(Piece { at: u32::try_from(at).ok()?, size });
            at = at.checked_add(size as usize)?;
        }
        if at != batch.bytes.len() {
            return None;
        }
        let (mut ranges, mut txns) = (HashMap::new(), HashMap::new());
        for (number, value) in values.into_iter().enumerate() {
            let key = array(&batch.bytes, keys + number * 8)?;
            let first = batch.ops.len();
            let Some(entry) = entry::read(&batch.bytes, key, value, &mut batch.ops) else { break };
            let time_ms = i64::from_le_bytes(array(&batch.bytes, number * 8)?);
            let range = *ranges.entry(entry.range_id).or_insert_with(|| {
                batch.range_ids.push(entry.range_id);
                batch.range_ids.len() as u32 - 1
            });
            for op in &batch.ops[first..] {
                let txn = if op.kind == Kind::WriteValue {
                    NO_TXN
                } else {
                    let id = op.txn_id.of(&batch.bytes).try_into().ok()?;
                    *txns.entry((range, id)).or_insert_with(|| {
                        batch.txns.push(NamedTxn { id, range });
                        batch.txns.len() as u32 - 1
                    })
                };
                batch.txn_of.push(txn);
            }
            let (first_op, end_op) = (first as u32, batch.ops.len() as u32);
            batch.records.push(Record { time_ms, range, entry, first_op, end_op });
        }
        Some(batch)
    }
}

/// The state that a batch is followed with.
struct State {
    clock: LogClock,
    horizon: Horizon,
    ranges: Vec<Range>,
    txns: Txns,
    /// Numbers of the ranges that the batch has touched, in that order.
    touched: Vec<u32>,
    /// Ops that committed: record, op, ordinal.
    committed: Vec<(u32, u32, u32)>,
}

/// What following a batch gives.
#[derive(Default)]
pub struct Followed {
    pub taken: usize,
    /// What has changed; `write_state` says how it is written.
    pub state: Vec<i64>,
    /// The wall time of each version.
    pub walls: Vec<i64>,
    /// Record and ordinal of each version.
    pub places: Vec<[u32; 2]>,
    /// Ops that committed: record, op, ordinal.
    committed: Vec<(u32, u32, u32)>,
}

/// A version that was followed, with the places of its bytes in the message of the records.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Found {
    range_id: i64,
    raft_index: u64,
    wall: i64,
    logical: i64,
    ordinal: u32,
    omitted: u32,
    key: Piece,
    value: Piece,
    /// Its size is `NO_PREVIOUS` where the op does not carry it.
    previous: Piece,
}

const NO_PREVIOUS: u32 = u32::MAX;

/// The versions that were followed last.
pub fn found(batch: &LogBatch, followed: &Followed) -> Vec<Found> {
    let version = |(record, op, ordinal): &(u32, u32, u32)| {
        let entry = &batch.records[*record as usize].entry;
        let op = &batch.ops[*op as usize];
        Found {
            range_id: entry.range_id,
            raft_index: entry.index,
            wall: op.time.0,
            logical: op.time.1,
            ordinal: *ordinal,
            omitted: u32::from(op.omitted),
            key: op.key,
            value: op.value.unwrap_or_default(),
            previous: op.previous.unwrap_or(Piece { at: 0, size: NO_PREVIOUS }),
        }
    };
    followed.committed.iter().map(version).collect()
}

/// Follows the batch as far as its ranges are plain, and writes the rows that it commits.
pub fn follow(
    batch: &LogBatch,
    state: &[u8],
    plan: &Plan,
    output: &mut Output,
    followed: &mut Followed,
) -> Option<()> {
    output.clear();
    let mut moved = State::read(batch, state)?;
    let taken = moved.run(batch, batch.len());
    if taken < batch.len() {
        moved = State::read(batch, state)?;
        if moved.run(batch, taken) != taken {
            return None;
        }
    }
    *followed = Followed { taken, ..Followed::default() };
    let high = rows(batch, &moved, plan, output, followed);
    moved.write(&mut followed.state, high);
    followed.committed = moved.committed;
    Some(())
}

fn rows(
    batch: &LogBatch,
    state: &State,
    plan: &Plan,
    output: &mut Output,
    followed: &mut Followed,
) -> Timestamp {
    let (mut row, mut replaced, mut high) = (RowBuffer::default(), RowBuffer::default(), (0, 0));
    for (number, (record, op, ordinal)) in state.committed.iter().enumerate() {
        let entry = &batch.records[*record as usize].entry;
        let op = &batch.ops[*op as usize];
        let version = Version {
            key: op.key.of(&batch.bytes),
            value: op.value.unwrap_or_default().of(&batch.bytes),
            previous: op.previous.map(|previous| previous.of(&batch.bytes)),
            time: op.time,
            omitted: op.omitted,
            range_id: entry.range_id,
            raft_index: entry.index,
            ordinal: *ordinal,
        };
        row::take(plan, number as u32, &version, &mut row, &mut replaced, output);
        followed.walls.push(op.time.0);
        followed.places.push([*record, *ordinal]);
        high = high.max(op.time);
    }
    high
}

impl State {
    /// Applies up to `limit` records; returns how many were applied. The state is of no use if it is fewer.
    fn run(&mut self, batch: &LogBatch, limit: usize) -> usize {
        for (number, record) in batch.records[..limit].iter().enumerate() {
            if self.step(batch, number, record).is_none() {
                return number;
            }
        }
        limit
    }

    fn step(&mut self, batch: &LogBatch, number: usize, record: &Record) -> Option<()> {
        let range = self.ranges.get_mut(record.range as usize).filter(|range| range.plain)?;
        let before = range.closed;
        range.heard_ms = self.clock.elapsed_ms;
        let is_heard = self.clock.wants(record.time_ms);
        let (closes, always) = match record.entry.what {
            What::Command { closed } => (closed, false),
            What::Heartbeat { closed, .. } => (Some(closed), true),
        };
        if let Some(closed) = closes.filter(|closed| always || closed.0 > self.horizon.believed) {
            self.horizon.require(closed.0, &self.clock, record.time_ms)?;
        }
        if !range.touched {
            range.touched = true;
            self.touched.push(record.range);
        }
        let (first, end) = (record.first_op as usize, record.end_op as usize);
        let (ops, txn_of) = (&batch.ops[first..end], &batch.txn_of[first..end]);
        let step = range.apply(&batch.bytes, &record.entry, ops, txn_of, &mut self.txns)?;
        if step == Step::Applied {
            for (ordinal, op) in ops.iter().enumerate() {
                if op.kind.commits() {
                    self.committed.push((number as u32, (first + ordinal) as u32, ordinal as u32));
                }
            }
            if range.high.0 > self.horizon.believed {
                // What the range has believed before may be far ahead: only the command's own versions are looked at.
                let own = ops.iter().filter(|op| op.kind.commits()).map(|op| op.time.0);
                if let Some(highest) = own.max() {
                    self.horizon.require(highest, &self.clock, record.time_ms)?;
                }
            }
        }
        if is_heard {
            let closed = closes.map_or(range.closed, |closed| range.closed.max(closed));
            self.clock.hear(range.id, record.time_ms, closed.0 / NANOS_PER_MS, closed > before);
        }
        Some(())
    }

    /// Reads the state that a batch is followed with: clock, horizon, ranges, transactions that are open; at the end
    /// the bounds of all ranges. Numbers have 8 bytes.
    fn read(batch: &LogBatch, message: &[u8]) -> Option<State> {
        let mut reader = Reader(Cursor::new(message));
        let clock = reader.clock()?;
        let horizon = Horizon { believed: reader.number()? };
        let mut bounds = vec![];
        let mut ranges = vec![];
        for id in &batch.range_ids {
            let (range, sizes) = reader.range(*id)?;
            ranges.push(range);
            bounds.push(sizes);
        }
        let all = batch.txns.iter().map(|txn| Txn { id: txn.id, ..Txn::default() });
        let mut txns = Txns { all: all.collect(), ..Txns::default() };
        for _ in 0..reader.number()? {
            let number = usize::try_from(reader.number()?).ok()?;
            let txn = txns.all.get_mut(number)?;
            txn.refs = reader.number().filter(|refs| *refs > 0)?;
            txn.time = reader.time()?;
            txn.anchored = reader.number()? != 0;
            ranges.get_mut(batch.txns[number].range as usize)?.queue.restore(txn);
        }
        for (range, (start, end)) in ranges.iter_mut().zip(bounds) {
            range.start = reader.0.take(start)?.to_vec();
            range.end = reader.0.take(end)?.to_vec();
        }
        (!reader.0.more()).then_some(State {
            clock,
            horizon,
            ranges,
            txns,
            touched: vec![],
            committed: vec![],
        })
    }

    /// Writes what has changed: clock, horizon, the highest version; the ranges that were touched; of the transactions
    /// first those that were open before, then those that were opened, in that order.
    fn write(&self, out: &mut Vec<i64>, high: Timestamp) {
        let clock = &self.clock;
        out.extend([clock.time_ms, clock.shown_ms, clock.closed_ms, clock.elapsed_ms, clock.counted_ms]);
        out.extend([clock.hearings, clock.passed, i64::from(clock.fell_at.is_some())]);
        out.extend([clock.fell_at.unwrap_or(0), clock.others_ms, clock.below, clock.voices.len() as i64]);
        for voice in &clock.voices {
            out.extend([voice.range_id, voice.shown_ms, voice.closed_ms, voice.counted_ms, voice.heard]);
        }
        out.extend([self.horizon.believed, high.0, high.1, self.touched.len() as i64]);
        for number in &self.touched {
            let range = &self.ranges[*number as usize];
            out.extend([i64::from(*number), range.applied as i64, range.closed.0, range.closed.1]);
            out.extend([range.resolved.0, range.resolved.1, range.high.0, range.high.1]);
            let pending = range.pending.unwrap_or(Pending { covers: 0, closed: (0, 0) });
            out.extend([i64::from(range.pends_anew), i64::from(range.pending.is_some())]);
            out.extend([pending.covers as i64, pending.closed.0, pending.closed.1]);
            out.extend([range.regressions as i64, range.heard_ms]);
        }
        let mut changed: Vec<(u32, usize)> = self.txns.all.iter().enumerate().filter_map(told).collect();
        changed.sort_unstable();
        out.push(changed.len() as i64);
        for (_, number) in changed {
            let txn = &self.txns.all[number];
            out.extend([number as i64, i64::from(txn.dropped), txn.refs, txn.time.0, txn.time.1]);
            out.extend([txn.min_time.0, txn.min_time.1]);
            match txn.anchor {
                Some(anchor) if txn.refs > 0 => out.extend([i64::from(anchor.at), i64::from(anchor.size)]),
                _ => out.extend([-1, 0]),
            }
        }
    }
}

/// Where a transaction stands among those that changed.
fn told((number, txn): (usize, &Txn)) -> Option<(u32, usize)> {
    (txn.changed || txn.dropped).then_some((txn.opened, number))
}

fn array<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..at.checked_add(SIZE)?)?.try_into().ok()
}

struct Reader<'a>(Cursor<'a>);

impl Reader<'_> {
    fn number(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.0.take(8)?.try_into().ok()?))
    }

    fn time(&mut self) -> Option<Timestamp> {
        Some((self.number()?, self.number()?))
    }

    fn clock(&mut self) -> Option<LogClock> {
        let mut clock = LogClock {
            time_ms: self.number()?,
            shown_ms: self.number()?,
            closed_ms: self.number()?,
            elapsed_ms: self.number()?,
            counted_ms: self.number()?,
            hearings: self.number()?,
            passed: self.number()?,
            ..LogClock::default()
        };
        let (has_fallen, fell_at) = (self.number()? != 0, self.number()?);
        clock.fell_at = has_fallen.then_some(fell_at);
        (clock.others_ms, clock.below) = (self.number()?, self.number()?);
        for _ in 0..self.number()? {
            clock.voices.push(Voice {
                range_id: self.number()?,
                shown_ms: self.number()?,
                closed_ms: self.number()?,
                counted_ms: self.number()?,
                heard: self.number()?,
            });
        }
        Some(clock)
    }

    /// A range without its bounds, and the sizes of these.
    fn range(&mut self, id: i64) -> Option<(Range, (usize, usize))> {
        let plain = self.number()? != 0;
        let mut range = Range {
            id,
            plain,
            generation: self.number()? as u64,
            applied: self.number()? as u64,
            closed: self.time()?,
            resolved: self.time()?,
            high: self.time()?,
            ..Range::default()
        };
        let (pends, covers, closed) = (self.number()? != 0, self.number()? as u64, self.time()?);
        range.pending = pends.then_some(Pending { covers, closed });
        let (has_beside, time) = (self.number()? != 0, self.time()?);
        let id = self.0.take(16)?.try_into().ok()?;
        range.queue.beside = has_beside.then_some((time, id));
        let sizes = (usize::try_from(self.number()?).ok()?, usize::try_from(self.number()?).ok()?);
        Some((range, sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of records, each of range 7 and with this value.
    fn records(values: &[&[u8]]) -> Vec<u8> {
        let mut message = vec![];
        values.iter().for_each(|_| message.extend(1_000i64.to_le_bytes()));
        values.iter().for_each(|value| message.extend((value.len() as u32).to_le_bytes()));
        values.iter().for_each(|_| message.extend(7i64.to_be_bytes()));
        values.iter().for_each(|value| message.extend(*value));
        message
    }

    fn numbers(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// The state of range 7, at index 10, with an empty clock.
    fn state() -> Vec<u8> {
        state_with_high(5)
    }

    /// The same, with the highest version at this wall time.
    fn state_with_high(high: i64) -> Vec<u8> {
        let mut message = numbers(&[0; 12]);
        message.extend(numbers(&[0])); // believed
        message.extend(numbers(&[1, 3, 10, 5, 0, 5, 0, high, 0, 0, 0, 0, 0, 0, 0, 0]));
        message.extend([0; 16]);
        message.extend(numbers(&[1, 1, 0]));
        message.extend(b"bd");
        message
    }

    const BEAT: &[u8] = &[8, 7, 0x10, 3, 0x32, 6, 0x0a, 2, 8, 9, 0x10, 10];
    const BEAT_BEHIND: &[u8] = &[8, 7, 0x10, 3, 0x32, 6, 0x0a, 2, 8, 9, 0x10, 11];
    const WRITE: &[u8] = &[
        8, 7, 0x10, 3, 0x18, 11, 0x22, 16, 0x7a, 14, 0x0a, 12, 0x0a, 10, 0x0a, 1, b'c', 0x12, 2, 8, 8, 0x1a,
        1, 0,
    ];

    fn run(values: &[&[u8]]) -> Followed {
        let batch = LogBatch::read(records(values), values.len()).unwrap();
        let mut followed = Followed::default();
        follow(&batch, &state(), &Plan::default(), &mut Output::default(), &mut followed).unwrap();
        followed
    }

    #[test]
    fn a_version_has_its_place() {
        let followed = run(&[WRITE, BEAT_BEHIND]);
        assert_eq!((followed.taken, &followed.walls[..], &followed.places[..]), (2, &[8][..], &[[0, 0]][..]));
    }

    #[test]
    fn a_version_is_found_with_the_places_of_its_bytes() {
        let batch = LogBatch::read(records(&[WRITE, BEAT_BEHIND]), 2).unwrap();
        let mut followed = Followed::default();
        follow(&batch, &state(), &Plan::default(), &mut Output::default(), &mut followed).unwrap();
        let [version] = found(&batch, &followed)[..] else { panic!("one version") };
        assert_eq!((version.range_id, version.raft_index, version.wall, version.ordinal), (7, 11, 8, 0));
        assert_eq!((version.key.of(&batch.bytes), version.value.of(&batch.bytes)), (&b"c"[..], &b"\0"[..]));
        assert_eq!((version.previous.size, version.omitted), (NO_PREVIOUS, 0));
    }

    #[test]
    fn a_command_is_followed_behind_a_version_far_ahead_that_was_believed() {
        let batch = LogBatch::read(records(&[WRITE]), 1).unwrap();
        let (mut followed, state) = (Followed::default(), state_with_high(i64::MAX));
        follow(&batch, &state, &Plan::default(), &mut Output::default(), &mut followed).unwrap();
        assert_eq!((followed.taken, &followed.walls[..]), (1, &[8][..]));
    }

    #[test]
    fn a_refused_record_leaves_the_state_of_the_prefix() {
        let (whole, cut) = (
            run(&[WRITE]),
            run(&[WRITE, WRITE, BEAT_BEHIND, BEAT_BEHIND, &[8, 7, 0x10, 3, 0x18, 99, 0x22, 0]]),
        );
        assert_eq!((whole.taken, cut.taken), (1, 4));
        let late = run(&[BEAT, WRITE]);
        assert_eq!((late.taken, late.state), (1, run(&[BEAT]).state)); // it commits below what is resolved
    }

    #[test]
    fn the_prefix_ends_at_a_record_that_cannot_be_read() {
        let batch = LogBatch::read(records(&[BEAT, b"\x08", BEAT]), 3).unwrap();
        assert_eq!((batch.len(), &batch.range_ids[..]), (1, &[7][..]));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let whole = records(&[BEAT]);
        assert!(LogBatch::read(whole[..whole.len() - 1].to_vec(), 1).is_none());
        assert!(LogBatch::read(vec![], 1).is_none());
        assert!(LogBatch::read(vec![], usize::MAX).is_none());
        let batch = LogBatch::read(whole, 1).unwrap();
        for end in 0..state().len() {
            assert!(State::read(&batch, &state()[..end]).is_none());
        }
        assert!(State::read(&batch, &state()).is_some());
    }
}
