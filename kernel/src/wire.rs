//! Protobuf messages, read without objects: a strict part of what protobuf takes. Fields in rising order, none twice
//! that is read, tags and lengths of five bytes at most. Whatever else a message has makes it Python's.

use crate::plan::Timestamp;

/// Bytes of a batch, by their place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Piece {
    pub at: u32,
    pub size: u32,
}

impl Piece {
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        let at = self.at as usize;
        bytes.get(at..at + self.size as usize).unwrap_or(&[])
    }
}

pub const VARINT: u32 = 0;
pub const FIXED64: u32 = 1;
pub const SIZED: u32 = 2;
pub const FIXED32: u32 = 5;

const TAG_BYTES_MAX: usize = 5;

/// A message that is a piece of a batch.
pub struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u32,
    repeats: bool,
}

impl<'a> Message<'a> {
    pub fn new(batch: &'a [u8], piece: Piece) -> Option<Self> {
        let end = (piece.at as usize).checked_add(piece.size as usize)?;
        Some(Message { bytes: batch.get(..end)?, at: piece.at as usize, number: 0, repeats: false })
    }

    pub fn more(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// The number and the wire type of the next field.
    pub fn field(&mut self) -> Option<(u32, u32)> {
        let tag = u32::try_from(self.short()?).ok()?;
        let number = tag >> 3;
        if number == 0 || number < self.number {
            return None;
        }
        self.repeats = number == self.number;
        self.number = number;
        Some((number, tag & 7))
    }

    /// The integer of a field that comes once.
    pub fn integer(&mut self) -> Option<u64> {
        if self.repeats {
            return None;
        }
        self.varint()
    }

    /// The flag of a field that comes once.
    pub fn flag(&mut self) -> Option<bool> {
        self.integer().filter(|value| *value < 2).map(|value| value == 1)
    }

    /// The bytes of a field that comes once.
    pub fn sized(&mut self) -> Option<Piece> {
        if self.repeats {
            return None;
        }
        self.next_sized()
    }

    /// The bytes of a field that may come again.
    pub fn next_sized(&mut self) -> Option<Piece> {
        let size = u32::try_from(self.short()?).ok()?;
        let at = self.at;
        self.pass(size as usize)?;
        Some(Piece { at: u32::try_from(at).ok()?, size })
    }

    /// The message in a field that comes once.
    pub fn message(&mut self) -> Option<Message<'a>> {
        let piece = self.sized()?;
        Message::new(self.bytes, piece)
    }

    /// The timestamp in a field that comes once; none of its parts is negative.
    pub fn time(&mut self) -> Option<Timestamp> {
        let (mut message, mut time) = (self.message()?, (0, 0));
        while message.more() {
            match message.field()? {
                (1, VARINT) => time.0 = i64::try_from(message.integer()?).ok()?,
                (2, VARINT) => time.1 = i64::from(i32::try_from(message.integer()?).ok()?),
                _ => return None,
            }
        }
        Some(time)
    }

    /// Passes over a field that is not read.
    pub fn skip(&mut self, wire: u32) -> Option<()> {
        match wire {
            VARINT => self.varint().map(|_| ()),
            FIXED64 => self.pass(8),
            SIZED => self.next_sized().map(|_| ()),
            FIXED32 => self.pass(4),
            _ => None,
        }
    }

    fn pass(&mut self, size: usize) -> Option<()> {
        let end = self.at.checked_add(size)?;
        if end > self.bytes.len() {
            return None;
        }
        self.at = end;
        Some(())
    }

    /// A tag or a length.
    fn short(&mut self) -> Option<u64> {
        let at = self.at;
        let value = self.varint()?;
        (self.at - at <= TAG_BYTES_MAX && value <= u64::from(u32::MAX >> 1)).then_some(value)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> Message<'_> {
        Message::new(bytes, Piece { at: 0, size: bytes.len() as u32 }).unwrap()
    }

    #[test]
    fn fields_come_once_and_in_rising_order() {
        let mut one = message(&[0x08, 5, 0x08, 6, 0x10, 7]);
        assert_eq!((one.field(), one.integer()), (Some((1, VARINT)), Some(5)));
        assert_eq!((one.field(), one.integer()), (Some((1, VARINT)), None));
        let mut falling = message(&[0x10, 7, 0x08, 5]);
        assert_eq!((falling.field(), falling.integer(), falling.field()), (Some((2, 0)), Some(7), None));
    }

    #[test]
    fn a_timestamp_has_no_negative_part() {
        assert_eq!(read_time(&[0x08, 7, 0x10, 3]), Some((7, 3)));
        assert_eq!(read_time(&[]), Some((0, 0)));
        assert_eq!(read_time(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), None);
        assert_eq!(read_time(&[0x10, 0x80, 0x80, 0x80, 0x80, 0x08]), None);
        assert_eq!(read_time(&[0x08, 1, 0x18, 1]), None);
    }

    fn read_time(inner: &[u8]) -> Option<Timestamp> {
        let outer = [&[0x0a, inner.len() as u8], inner].concat();
        let mut reader = message(&outer);
        reader.field()?;
        reader.time()
    }

    #[test]
    fn what_is_cut_or_oversized_is_refused() {
        for cut in [&[0x80u8][..], &[0x0a, 2, 0], &[0x09, 0], &[0x0d, 0], &[0x0b], &[0x02, 0]] {
            let mut one = message(cut);
            assert!(one.field().and_then(|(_, wire)| one.skip(wire)).is_none());
        }
        assert!(Message::new(b"abc", Piece { at: 1, size: 3 }).is_none());
    }
}
