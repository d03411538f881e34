//! The open transactions of ranges that a batch names: `tidegate/ranges/intent_queue.py`, without negative counts.
//! Of all others of a range only the oldest counts, and it does not change.

use std::collections::BTreeSet;

use crate::plan::Timestamp;
use crate::wire::Piece;

pub type TxnId = [u8; 16];

/// A transaction that a batch names. It is open if `refs` is above 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Txn {
    pub id: TxnId,
    pub refs: i64,
    pub time: Timestamp,
    pub min_time: Timestamp,
    pub anchored: bool,
    /// Its anchor key, where the batch has told it.
    pub anchor: Option<Piece>,
    /// Whether what is stored of it is out of date.
    pub changed: bool,
    /// Whether it was forgotten in the batch; it may have come again.
    pub dropped: bool,
    /// Rises with each transaction that is opened; 0 for one that was open before the batch.
    pub opened: u32,
}

/// The transactions of a batch, each with its number.
#[derive(Default)]
pub struct Txns {
    pub all: Vec<Txn>,
    pub opened: u32,
}

/// Those of one range that are open, oldest first.
#[derive(Default)]
pub struct IntentQueue {
    open: BTreeSet<(Timestamp, TxnId)>,
    /// The oldest of those that the batch does not name.
    pub beside: Option<(Timestamp, TxnId)>,
}

/// Methods return whether the oldest timestamp may have risen.
impl IntentQueue {
    pub fn restore(&mut self, txn: &Txn) {
        self.open.insert((txn.time, txn.id));
    }

    pub fn oldest(&self) -> Option<(Timestamp, TxnId)> {
        let named = self.open.first().copied();
        match (named, self.beside) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn is_oldest(&self, txn: &Txn) -> bool {
        self.oldest() == Some((txn.time, txn.id))
    }

    pub fn increment(
        &mut self,
        txns: &mut Txns,
        number: usize,
        anchor: Piece,
        min: Timestamp,
        time: Timestamp,
    ) -> Option<bool> {
        let txn = txns.all.get_mut(number)?;
        if txn.refs == 0 {
            txns.opened += 1;
            *txn = Txn { id: txn.id, dropped: txn.dropped, opened: txns.opened, ..Txn::default() };
            (txn.refs, txn.time, txn.changed) = (1, time, true);
            anchor_at(txn, anchor, min);
            self.open.insert((time, txn.id));
            return Some(false);
        }
        if !txn.anchored {
            anchor_at(txn, anchor, min);
        }
        txn.refs = txn.refs.checked_add(1)?;
        txn.changed = true;
        Some(self.rise(txn, time))
    }

    pub fn decrement(&mut self, txns: &mut Txns, number: usize, time: Option<Timestamp>) -> Option<bool> {
        let txn = txns.all.get_mut(number)?;
        if txn.refs == 0 {
            return Some(false);
        }
        if txn.refs == 1 {
            return Some(self.forget(txn));
        }
        txn.refs -= 1;
        txn.changed = true;
        Some(time.is_some_and(|time| self.rise(txn, time)))
    }

    pub fn forward(&mut self, txns: &mut Txns, number: usize, time: Timestamp) -> Option<bool> {
        let txn = txns.all.get_mut(number)?;
        Some(txn.refs != 0 && self.rise(txn, time))
    }

    pub fn remove(&mut self, txns: &mut Txns, number: usize) -> Option<bool> {
        let txn = txns.all.get_mut(number)?;
        Some(txn.refs != 0 && self.forget(txn))
    }

    fn rise(&mut self, txn: &mut Txn, time: Timestamp) -> bool {
        if time <= txn.time {
            return false;
        }
        let was_oldest = self.is_oldest(txn);
        self.open.remove(&(txn.time, txn.id));
        self.open.insert((time, txn.id));
        (txn.time, txn.changed) = (time, true);
        was_oldest
    }

    fn forget(&mut self, txn: &mut Txn) -> bool {
        let was_oldest = self.is_oldest(txn);
        self.open.remove(&(txn.time, txn.id));
        (txn.refs, txn.changed, txn.dropped) = (0, false, true);
        was_oldest
    }
}

fn anchor_at(txn: &mut Txn, anchor: Piece, min: Timestamp) {
    (txn.anchor, txn.min_time, txn.anchored) = (Some(anchor), min, anchor.size > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANCHOR: Piece = Piece { at: 4, size: 1 };

    fn two() -> (IntentQueue, Txns) {
        let all = vec![Txn { id: [1; 16], ..Txn::default() }, Txn { id: [2; 16], ..Txn::default() }];
        (IntentQueue::default(), Txns { all, opened: 0 })
    }

    #[test]
    fn the_oldest_may_rise_when_it_moves_or_leaves() {
        let (mut queue, mut txns) = two();
        assert_eq!(queue.increment(&mut txns, 0, ANCHOR, (4, 0), (5, 0)), Some(false));
        assert_eq!(queue.increment(&mut txns, 1, ANCHOR, (6, 0), (6, 0)), Some(false));
        assert_eq!(queue.forward(&mut txns, 1, (7, 0)), Some(false));
        assert_eq!(queue.forward(&mut txns, 0, (9, 0)), Some(true));
        assert_eq!(queue.oldest(), Some(((7, 0), [2; 16])));
        assert_eq!(queue.remove(&mut txns, 1), Some(true));
        assert_eq!(queue.decrement(&mut txns, 0, None), Some(true));
        assert_eq!(queue.oldest(), None);
        assert_eq!(queue.decrement(&mut txns, 0, None), Some(false));
        assert_eq!(queue.forward(&mut txns, 0, (99, 0)), Some(false));
    }

    #[test]
    fn intents_are_counted() {
        let (mut queue, mut txns) = two();
        for time in [(5, 0), (4, 0), (6, 1)] {
            queue.increment(&mut txns, 0, ANCHOR, (4, 0), time);
        }
        assert_eq!((txns.all[0].refs, txns.all[0].time), (3, (6, 1)));
        assert_eq!(queue.decrement(&mut txns, 0, Some((8, 0))), Some(true));
        assert_eq!((txns.all[0].refs, txns.all[0].time), (2, (8, 0)));
    }

    #[test]
    fn one_that_is_not_named_can_be_the_oldest() {
        let (mut queue, mut txns) = two();
        queue.beside = Some(((5, 0), [1; 16]));
        queue.increment(&mut txns, 1, ANCHOR, (5, 0), (5, 0));
        assert_eq!(queue.oldest(), queue.beside);
        assert_eq!(queue.remove(&mut txns, 1), Some(false));
    }

    #[test]
    fn one_that_comes_again_was_dropped() {
        let (mut queue, mut txns) = two();
        (txns.all[0].refs, txns.all[0].time) = (1, (5, 0));
        let before = txns.all[0].clone();
        queue.restore(&before);
        queue.remove(&mut txns, 0);
        assert!(!txns.all[0].changed && txns.all[0].dropped);
        queue.increment(&mut txns, 0, Piece::default(), (1, 0), (3, 0));
        let txn = &txns.all[0];
        assert!(txn.changed && txn.dropped && !txn.anchored);
        assert_eq!((txn.refs, txn.opened), (1, 1));
        queue.increment(&mut txns, 0, ANCHOR, (2, 0), (2, 0));
        assert_eq!(
            (txns.all[0].anchor, txns.all[0].min_time, txns.all[0].time),
            (Some(ANCHOR), (2, 0), (3, 0))
        );
    }
}
