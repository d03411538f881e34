//! A plain range, as entries of its log move it on: `tidegate/ranges/range_log.py` and `resolver.py`. It is live and
//! initialised, and waits for nothing. An entry that breaks a rule is refused; the range is of no use then.

use crate::entry::{Entry, What};
use crate::intents::{IntentQueue, Txns};
use crate::op_log::{Kind, Op};
use crate::plan::Timestamp;

/// What a range makes of an entry.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// It says nothing new.
    Passed,
    Applied,
}

/// A closed timestamp that waits for an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pending {
    pub covers: u64,
    pub closed: Timestamp,
}

#[derive(Default)]
pub struct Range {
    pub id: i64,
    pub plain: bool,
    pub generation: u64,
    pub applied: u64,
    pub closed: Timestamp,
    pub resolved: Timestamp,
    pub high: Timestamp,
    pub pending: Option<Pending>,
    /// Whether `pending` is another one than before the batch.
    pub pends_anew: bool,
    pub regressions: u64,
    pub touched: bool,
    /// The elapsed log time before its last record.
    pub heard_ms: i64,
    pub start: Vec<u8>,
    pub end: Vec<u8>,
    pub queue: IntentQueue,
}

impl Range {
    /// Applies the next entry. `txn_of` has the number of each op's transaction.
    pub fn apply(
        &mut self,
        batch: &[u8],
        entry: &Entry,
        ops: &[Op],
        txn_of: &[u32],
        txns: &mut Txns,
    ) -> Option<Step> {
        match entry.what {
            What::Command { closed } => {
                if entry.index <= self.applied {
                    return if self.is_copy(entry.generation, closed, ops) {
                        Some(Step::Passed)
                    } else {
                        None
                    };
                }
                if entry.generation != self.generation || entry.index != self.applied + 1 {
                    return None;
                }
                for (op, txn) in ops.iter().zip(txn_of) {
                    self.apply_op(batch, op, *txn as usize, txns)?;
                }
                self.applied = entry.index;
                if let Some(closed) = closed {
                    self.forward_closed(closed)?;
                }
                if let Some(pending) = self.pending.filter(|pending| pending.covers <= self.applied) {
                    (self.pending, self.pends_anew) = (None, true);
                    self.forward_closed(pending.closed)?;
                }
                Some(Step::Applied)
            }
            What::Heartbeat { closed, covers } => {
                if entry.generation < self.generation {
                    return Some(Step::Passed);
                }
                if entry.generation > self.generation {
                    return None;
                }
                if covers < self.applied && closed > self.closed {
                    return None;
                }
                if covers <= self.applied {
                    self.forward_closed(closed)?;
                } else if self.pending.is_none_or(|pending| covers >= pending.covers) {
                    (self.pending, self.pends_anew) = (Some(Pending { covers, closed }), true);
                }
                Some(Step::Applied)
            }
        }
    }

    /// Whether a command at an applied index is a copy of an applied one, as far as is plain: Python looks at others.
    fn is_copy(&self, generation: u64, closed: Option<Timestamp>, ops: &[Op]) -> bool {
        let writes = |op: &Op| op.kind.commits() || matches!(op.kind, Kind::WriteIntent);
        let has_newer = ops.iter().any(|op| writes(op) && op.time > self.high);
        generation != self.generation || (closed.is_none_or(|closed| closed <= self.closed) && !has_newer)
    }

    fn apply_op(&mut self, batch: &[u8], op: &Op, txn: usize, txns: &mut Txns) -> Option<()> {
        if op.kind.commits() {
            let key = op.key.of(batch);
            if key < &self.start[..] || key >= &self.end[..] || op.time <= self.resolved {
                return None;
            }
            self.high = self.high.max(op.time);
        }
        let queue = &mut self.queue;
        let may_have_risen = match op.kind {
            Kind::WriteValue => false,
            Kind::CommitIntent => queue.decrement(txns, txn, Some(op.time))?,
            Kind::WriteIntent if op.time <= self.resolved => return None,
            Kind::WriteIntent => queue.increment(txns, txn, op.key, op.min_time, op.time)?,
            Kind::UpdateIntent => queue.forward(txns, txn, op.time)?,
            Kind::AbortIntent => queue.decrement(txns, txn, None)?,
            Kind::AbortTxn => queue.remove(txns, txn)?,
        };
        if may_have_risen {
            self.resolve()?;
        }
        Some(())
    }

    fn forward_closed(&mut self, closed: Timestamp) -> Option<()> {
        if closed < self.closed {
            self.regressions += 1;
        }
        if closed <= self.closed {
            return Some(());
        }
        self.closed = closed;
        self.resolve()
    }

    /// Raises the resolved timestamp to what is closed and below the oldest open intent.
    fn resolve(&mut self) -> Option<()> {
        let mut wall = self.closed.0;
        if let Some((oldest, _)) = self.queue.oldest() {
            if oldest <= self.resolved {
                return None;
            }
            wall = wall.min(if oldest.1 != 0 { oldest.0 } else { oldest.0 - 1 });
        }
        if wall > self.resolved.0 {
            self.resolved = (wall, 0);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intents::Txn;
    use crate::wire::Piece;

    fn range() -> Range {
        Range {
            id: 7,
            plain: true,
            generation: 3,
            applied: 10,
            closed: (5, 0),
            resolved: (5, 0),
            start: b"b".to_vec(),
            end: b"d".to_vec(),
            ..Range::default()
        }
    }

    fn txns() -> Txns {
        let mut txns = Txns::default();
        txns.all.push(Txn { id: [1; 16], ..Txn::default() });
        txns
    }

    fn op(kind: Kind, wall: i64) -> Op {
        let key = Piece { at: 0, size: 1 };
        let value = kind.commits().then_some(Piece::default());
        Op {
            kind,
            txn_id: Piece::default(),
            key,
            time: (wall, 0),
            min_time: (wall, 0),
            value,
            previous: None,
            omitted: false,
        }
    }

    fn command(range: &mut Range, txns: &mut Txns, key: &[u8], ops: &[Op], closes: i64) -> Option<Step> {
        let closed = (closes > 0).then_some((closes, 0));
        let entry =
            Entry { range_id: 7, generation: 3, index: range.applied + 1, what: What::Command { closed } };
        range.apply(key, &entry, ops, &vec![0; ops.len()], txns)
    }

    #[test]
    fn an_open_intent_holds_back_what_is_resolved() {
        let (mut range, mut txns) = (range(), txns());
        command(&mut range, &mut txns, b"c", &[op(Kind::WriteIntent, 8)], 20).unwrap();
        assert_eq!((range.closed, range.resolved), ((20, 0), (7, 0)));
        command(&mut range, &mut txns, b"c", &[op(Kind::CommitIntent, 9)], 0).unwrap();
        assert_eq!((range.resolved, range.high, range.applied), ((20, 0), (9, 0), 12));
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for (key, refused) in [
            (b"a", op(Kind::WriteValue, 8)),
            (b"d", op(Kind::WriteValue, 8)),
            (b"c", op(Kind::WriteValue, 5)),
            (b"c", op(Kind::WriteIntent, 5)),
        ] {
            assert!(command(&mut range(), &mut txns(), key, &[refused], 0).is_none());
        }
        for (generation, index) in [(3, 12), (2, 11), (4, 11)] {
            let entry = Entry { range_id: 7, generation, index, what: What::Command { closed: None } };
            assert!(range().apply(b"", &entry, &[], &[], &mut txns()).is_none());
        }
    }

    #[test]
    fn a_command_that_was_applied_is_passed_over() {
        let entry = Entry { range_id: 7, generation: 9, index: 10, what: What::Command { closed: None } };
        assert_eq!(range().apply(b"", &entry, &[], &[], &mut txns()), Some(Step::Passed));
    }

    #[test]
    fn a_command_that_is_no_copy_of_an_applied_one_is_left_to_python() {
        let again = |closed, ops: &[Op]| {
            let entry = Entry { range_id: 7, generation: 3, index: 10, what: What::Command { closed } };
            let mut range = Range { high: (8, 0), ..range() };
            range.apply(b"b", &entry, ops, &vec![0; ops.len()], &mut txns())
        };
        assert_eq!(again(Some((5, 0)), &[op(Kind::WriteValue, 8)]), Some(Step::Passed));
        assert_eq!(again(Some((6, 0)), &[]), None);
        assert_eq!(again(None, &[op(Kind::WriteValue, 9)]), None);
        assert_eq!(again(None, &[op(Kind::WriteIntent, 8)]), Some(Step::Passed));
        assert_eq!(again(None, &[op(Kind::WriteIntent, 9)]), None);
    }

    fn beat(range: &mut Range, generation: u64, wall: i64, covers: u64) -> Option<Step> {
        let what = What::Heartbeat { closed: (wall, 0), covers };
        range.apply(b"", &Entry { range_id: 7, generation, index: 0, what }, &[], &[], &mut txns())
    }

    #[test]
    fn a_heartbeat_closes_what_its_index_covers() {
        let mut range = range();
        assert_eq!(beat(&mut range, 3, 9, 10), Some(Step::Applied));
        assert_eq!(range.resolved, (9, 0));
        beat(&mut range, 3, 8, 10);
        assert_eq!((range.closed, range.regressions), ((9, 0), 1));
        assert_eq!(beat(&mut range, 3, 9, 9), Some(Step::Applied));
        assert_eq!(beat(&mut range, 3, 10, 9), None);
        beat(&mut range, 3, 30, 12);
        beat(&mut range, 3, 20, 11);
        assert_eq!(range.pending, Some(Pending { covers: 12, closed: (30, 0) }));
        command(&mut range, &mut txns(), b"", &[], 0);
        assert_eq!(range.closed, (9, 0));
        command(&mut range, &mut txns(), b"", &[], 0);
        assert_eq!((range.closed, range.pending, range.pends_anew), ((30, 0), None, true));
        assert_eq!(beat(&mut range, 2, 99, 0), Some(Step::Passed));
        assert_eq!(beat(&mut range, 4, 99, 0), None);
    }
}
