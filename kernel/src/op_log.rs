//! The logical ops of a command: `_op` and its parts in `tidegate/raftlog/decode.py`.

use crate::plan::Timestamp;
use crate::wire::{Message, Piece, SIZED, VARINT};

pub const TXN_ID_BYTES: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    WriteValue,
    WriteIntent,
    UpdateIntent,
    CommitIntent,
    AbortIntent,
    AbortTxn,
}

impl Kind {
    /// Whether the op makes a version.
    pub fn commits(self) -> bool {
        matches!(self, Kind::WriteValue | Kind::CommitIntent)
    }
}

/// A logical op. What its kind does not have is empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    pub kind: Kind,
    pub txn_id: Piece,
    /// The key of a version; the anchor key of an intent's transaction.
    pub key: Piece,
    pub time: Timestamp,
    pub min_time: Timestamp,
    /// `None`: the op does not carry it.
    pub value: Option<Piece>,
    /// The value before; `None` as well.
    pub previous: Option<Piece>,
    pub omitted: bool,
}

/// Adds the ops of a log to `ops`.
pub fn read(batch: &[u8], log: Piece, ops: &mut Vec<Op>) -> Option<()> {
    let mut message = Message::new(batch, log)?;
    while message.more() {
        if message.field()? != (1, SIZED) {
            return None;
        }
        let piece = message.next_sized()?;
        ops.push(op(batch, piece)?);
    }
    Some(())
}

fn op(batch: &[u8], piece: Piece) -> Option<Op> {
    let mut message = Message::new(batch, piece)?;
    let (number, wire) = message.field()?;
    if wire != SIZED {
        return None;
    }
    let body = message.message()?;
    if message.more() {
        return None;
    }
    match number {
        1 => version(body, Kind::WriteValue),
        2 => intent(body),
        3 => of_txn(body, Kind::UpdateIntent),
        4 => version(body, Kind::CommitIntent),
        5 => of_txn(body, Kind::AbortIntent),
        6 => of_txn(body, Kind::AbortTxn),
        _ => None,
    }
}

fn none(kind: Kind) -> Op {
    Op {
        kind,
        txn_id: Piece::default(),
        key: Piece::default(),
        time: (0, 0),
        min_time: (0, 0),
        value: None,
        previous: None,
        omitted: false,
    }
}

/// A write, or the commit of an intent: the same fields, behind the transaction's id.
fn version(mut message: Message, kind: Kind) -> Option<Op> {
    let mut op = none(kind);
    let ids = u32::from(kind == Kind::CommitIntent);
    while message.more() {
        let (number, wire) = message.field()?;
        match (number.checked_sub(ids)?, wire) {
            (0, SIZED) => op.txn_id = message.sized()?,
            (1, SIZED) => op.key = message.sized()?,
            (2, SIZED) => op.time = message.time()?,
            (3, SIZED) => op.value = Some(message.sized()?),
            (4, SIZED) => op.previous = Some(message.sized()?),
            // The two ops have these in different order.
            (field @ (5 | 6), VARINT) => {
                if (field == 5) == (kind == Kind::CommitIntent) {
                    op.omitted = message.flag()?;
                } else {
                    message.integer()?;
                }
            }
            (0..=6, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    (kind == Kind::WriteValue || op.txn_id.size == TXN_ID_BYTES).then_some(op)
}

fn intent(mut message: Message) -> Option<Op> {
    let mut op = none(Kind::WriteIntent);
    while message.more() {
        match message.field()? {
            (1, SIZED) => op.txn_id = message.sized()?,
            (2, SIZED) => op.key = message.sized()?,
            (3, SIZED) => op.time = message.time()?,
            (4, SIZED) => op.min_time = message.time()?,
            (5, VARINT) => {
                message.integer()?;
            }
            (1..=5, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    (op.txn_id.size == TXN_ID_BYTES).then_some(op)
}

fn of_txn(mut message: Message, kind: Kind) -> Option<Op> {
    let mut op = none(kind);
    while message.more() {
        match message.field()? {
            (1, SIZED) => op.txn_id = message.sized()?,
            (2, SIZED) if kind == Kind::UpdateIntent => op.time = message.time()?,
            (1..=2, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    (op.txn_id.size == TXN_ID_BYTES).then_some(op)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn log(number: u8, body: &[u8]) -> Vec<u8> {
        sized(1, &sized(number, body))
    }

    fn ops(bytes: &[u8]) -> Option<Vec<Op>> {
        let mut ops = vec![];
        read(bytes, Piece { at: 0, size: bytes.len() as u32 }, &mut ops)?;
        Some(ops)
    }

    const TXN: &[u8] = &[7; 16];

    #[test]
    fn a_write_has_key_time_and_value() {
        let body = [sized(1, b"k"), sized(2, &[8, 9]), sized(3, b""), sized(4, b"p"), vec![0x28, 3, 0x30, 1]];
        let bytes = log(1, &body.concat());
        let op = ops(&bytes).unwrap()[0];
        assert_eq!((op.kind, op.key.of(&bytes), op.time), (Kind::WriteValue, &b"k"[..], (9, 0)));
        assert_eq!((op.value.map(|value| value.size), op.omitted), (Some(0), true));
    }

    #[test]
    fn a_commit_has_its_transaction_first_and_the_mark_before_the_origin() {
        let body = [sized(1, TXN), sized(2, b"k"), sized(3, &[8, 9]), sized(4, b"v"), vec![0x30, 1, 0x38, 0]];
        let bytes = log(4, &body.concat());
        let op = ops(&bytes).unwrap()[0];
        assert_eq!((op.kind, op.txn_id.of(&bytes), op.key.of(&bytes)), (Kind::CommitIntent, TXN, &b"k"[..]));
        assert!(op.omitted);
        assert_eq!(op.value.unwrap().of(&bytes), b"v");
    }

    #[test]
    fn an_intent_has_two_times() {
        let body = [sized(1, TXN), sized(2, b"a"), sized(3, &[8, 9]), sized(4, &[8, 5]), vec![0x28, 1]];
        let op = ops(&log(2, &body.concat())).unwrap()[0];
        assert_eq!((op.time, op.min_time), ((9, 0), (5, 0)));
        for (number, kind) in [(3, Kind::UpdateIntent), (5, Kind::AbortIntent), (6, Kind::AbortTxn)] {
            assert_eq!(ops(&log(number, &sized(1, TXN))).unwrap()[0].kind, kind);
        }
    }

    #[test]
    fn other_ops_and_damaged_ones_are_refused() {
        assert!(ops(&log(7, b"")).is_none());
        assert!(ops(&log(2, &sized(1, b"short"))).is_none());
        assert!(ops(&log(4, &[])).is_none());
        assert!(ops(&sized(1, b"")).is_none());
        assert!(ops(&sized(2, b"")).is_none());
        let two = sized(1, &[sized(5, &sized(1, TXN)), sized(6, &sized(1, TXN))].concat());
        assert!(ops(&two).is_none());
        assert!(ops(&log(1, &sized(1, b"k").repeat(2))).is_none());
        let whole = log(5, &sized(1, TXN));
        for end in 1..whole.len() {
            assert!(ops(&whole[..end]).is_none());
        }
    }
}
