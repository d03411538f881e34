//! A Raft command that did nothing to its range beyond its ops: `_command` of `tidegate/raftlog/decode.py`.

use crate::op_log::{self, Op};
use crate::plan::Timestamp;
use crate::wire::{Message, SIZED, VARINT};

/// Adds the ops of a command to `ops`; returns what it closes.
pub fn read(batch: &[u8], mut message: Message, ops: &mut Vec<Op>) -> Option<Option<Timestamp>> {
    let (first, mut has_log, mut has_batch, mut closed) = (ops.len(), false, false, None);
    while message.more() {
        match message.field()? {
            (4 | 6, VARINT) => {
                message.integer()?;
            }
            (13, SIZED) => result(message.message()?)?,
            (14, SIZED) => {
                write_batch(message.message()?)?;
                has_batch = true;
            }
            (15, SIZED) => {
                op_log::read(batch, message.sized()?, ops)?;
                has_log = true;
            }
            (17, SIZED) => closed = Some(message.time()?),
            (4 | 6 | 13 | 14 | 15 | 17, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    if has_batch && !has_log {
        return None; // a hole
    }
    // A value may stand in the write batch: Python looks for it there.
    let complete = ops[first..].iter().all(|op| !op.kind.commits() || op.value.is_some());
    complete.then_some(closed)
}

/// A result without a trigger. Its write timestamp is read only to know that Python could.
fn result(mut message: Message) -> Option<()> {
    while message.more() {
        match message.field()? {
            (3 | 4 | 17 | 24 | 27 | 30, _) => return None,
            (8, SIZED) => {
                message.time()?;
            }
            (8, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    Some(())
}

/// A write batch whose values nobody needs.
fn write_batch(mut message: Message) -> Option<()> {
    while message.more() {
        match message.field()? {
            (1, SIZED) => {
                message.sized()?;
            }
            (1, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Piece;

    fn command(bytes: &[u8]) -> Option<Option<Timestamp>> {
        read(bytes, Message::new(bytes, Piece { at: 0, size: bytes.len() as u32 })?, &mut vec![])
    }

    #[test]
    fn a_command_may_be_empty_close_and_have_fields_that_nobody_reads() {
        assert_eq!(command(&[]), Some(None));
        assert_eq!(command(&[0x20, 9, 0x8a, 1, 2, 8, 7]), Some(Some((7, 0))));
        assert_eq!(command(&[0x0a, 1, 9, 0x6a, 4, 0x42, 2, 8, 7, 0xa2, 1, 0]), Some(None));
    }

    #[test]
    fn triggers_and_holes_are_refused() {
        for trigger in [0x1au8, 0x22] {
            assert_eq!(command(&[0x6a, 2, trigger, 0]), None);
        }
        for trigger in [17u8, 24, 27, 30] {
            let tag = u32::from(trigger) << 3 | 2;
            assert_eq!(command(&[0x6a, 3, tag as u8 & 0x7f | 0x80, (tag >> 7) as u8, 0]), None);
        }
        assert_eq!(command(&[0x72, 0]), None);
        assert_eq!(command(&[0x72, 0, 0x7a, 0]), Some(None));
    }

    #[test]
    fn a_version_without_its_value_is_refused() {
        assert_eq!(command(&[0x7a, 7, 0x0a, 5, 0x0a, 3, 0x0a, 1, 9]), None);
        assert_eq!(command(&[0x7a, 9, 0x0a, 7, 0x0a, 5, 0x0a, 1, 9, 0x1a, 0]), Some(None));
    }
}
