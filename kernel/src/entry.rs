//! Records of the log that a plain range can follow: `decode_entry` of `tidegate/raftlog/decode.py`.

use crate::command;
use crate::op_log::Op;
use crate::plan::Timestamp;
use crate::wire::{Message, Piece, SIZED, VARINT};

/// An entry of one range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub range_id: i64,
    pub generation: u64,
    pub index: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    Command { closed: Option<Timestamp> },
    Heartbeat { closed: Timestamp, covers: u64 },
}

/// Reads the entry of a record. The ops of a command are added to `ops`; nothing is added where it is refused.
pub fn read(batch: &[u8], key: [u8; 8], value: Piece, ops: &mut Vec<Op>) -> Option<Entry> {
    let before = ops.len();
    let entry = entry(batch, value, ops).filter(|entry| key == entry.range_id.to_be_bytes());
    if entry.is_none() {
        ops.truncate(before);
    }
    entry
}

fn entry(batch: &[u8], value: Piece, ops: &mut Vec<Op>) -> Option<Entry> {
    let mut message = Message::new(batch, value)?;
    let (mut range_id, mut generation, mut index, mut what) = (0, 0, 0, None);
    while message.more() {
        match message.field()? {
            (1, VARINT) => range_id = i64::try_from(message.integer()?).ok()?,
            (2, VARINT) => generation = message.integer()?,
            (3, VARINT) => index = message.integer()?,
            (4, SIZED) => {
                what = Some(What::Command { closed: command::read(batch, message.message()?, ops)? })
            }
            (6, SIZED) if what.is_none() => what = Some(heartbeat(message.message()?)?),
            (1..=9, _) => return None,
            (_, wire) => message.skip(wire)?,
        }
    }
    (range_id > 0).then_some(Entry { range_id, generation, index, what: what? })
}

fn heartbeat(mut message: Message) -> Option<What> {
    let (mut closed, mut covers) = ((0, 0), 0);
    while message.more() {
        match message.field()? {
            (1, SIZED) => closed = message.time()?,
            (2, VARINT) => covers = message.integer()?,
            _ => return None,
        }
    }
    Some(What::Heartbeat { closed, covers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(key: i64, value: &[u8]) -> Option<Entry> {
        let piece = Piece { at: 0, size: value.len() as u32 };
        read(value, key.to_be_bytes(), piece, &mut vec![])
    }

    #[test]
    fn a_heartbeat_names_what_it_closes_and_covers() {
        let what = What::Heartbeat { closed: (5, 0), covers: 9 };
        let entry = Entry { range_id: 7, generation: 3, index: 0, what };
        assert_eq!(read_one(7, &[8, 7, 0x10, 3, 0x32, 6, 0x0a, 2, 8, 5, 0x10, 9]), Some(entry));
    }

    #[test]
    fn a_command_is_the_other_kind() {
        let what = What::Command { closed: None };
        let entry = Entry { range_id: 7, generation: 3, index: 4, what };
        assert_eq!(read_one(7, &[8, 7, 0x10, 3, 0x18, 4, 0x22, 0]), Some(entry));
    }

    #[test]
    fn everything_else_is_refused() {
        for value in [
            &[8, 7][..],
            &[8, 6, 0x22, 0],                // another range than the key's
            &[0x22, 0],                      // no range
            &[8, 7, 0x2a, 0],                // a snapshot
            &[8, 7, 0x3a, 0],                // a scan chunk
            &[8, 7, 0x42, 0],                // a descriptor
            &[8, 7, 0x4a, 0],                // the end of the range
            &[8, 7, 0x22, 0, 0x32, 0],       // two kinds
            &[8, 7, 0x10, 0x22, 0x22, 0, 9], // cut
        ] {
            assert_eq!(read_one(7, value), None);
        }
        assert_eq!(read_one(0, &[8, 0, 0x22, 0]), None);
    }
}
