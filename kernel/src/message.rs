//! The messages of a batch between the host and the kernel (`tidegate/kernel/message.py`).

use crate::plan::Plan;
use crate::row::{take, Output, Version};
use crate::table_codec::RowBuffer;

/// Where the parts of an output are, and how many items each has.
#[derive(Default)]
#[repr(C)]
pub struct Summary {
    records: u32,
    record_count: u32,
    text: u32,
    text_size: u32,
    fates: u32,
    highs: u32,
    high_count: u32,
}

impl Summary {
    pub fn of(output: &Output) -> Self {
        Summary {
            records: output.records.as_ptr() as usize as u32,
            record_count: output.records.len() as u32,
            text: output.text.as_ptr() as usize as u32,
            text_size: output.text.len() as u32,
            fates: output.fates.as_ptr() as usize as u32,
            highs: output.highs.as_ptr() as usize as u32,
            high_count: output.highs.len() as u32,
        }
    }
}

/// The size of a previous value that the log does not hold.
const NO_PREVIOUS: u32 = u32::MAX;

/// A column of a message: items of a fixed size.
struct Column<'a, const SIZE: usize>(&'a [u8]);

impl<const SIZE: usize> Column<'_, SIZE> {
    fn at(&self, number: usize) -> Option<[u8; SIZE]> {
        self.0.get(number * SIZE..(number + 1) * SIZE)?.try_into().ok()
    }
}

fn column<'a, const SIZE: usize>(rest: &mut &'a [u8], count: usize) -> Option<Column<'a, SIZE>> {
    let (items, behind) = rest.split_at_checked(count.checked_mul(SIZE)?)?;
    *rest = behind;
    Some(Column(items))
}

fn cut<'a>(rest: &mut &'a [u8], size: u32) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(size as usize)?;
    *rest = behind;
    Some(taken)
}

/// Takes the versions of a message to records. The message has a column for each field: wall times, range ids and raft
/// indexes (8 bytes), logical times, ordinals, sizes of keys, sizes of values (4), omitted (1); then all keys and all
/// values. Where the plan needs previous values there is a column with their sizes (4) behind that of the values, and
/// they stand behind the values.
pub fn take_versions(message: &[u8], count: usize, plan: &Plan, output: &mut Output) -> Option<()> {
    output.clear();
    let mut rest = message;
    let walls = column::<8>(&mut rest, count)?;
    let range_ids = column::<8>(&mut rest, count)?;
    let raft_indexes = column::<8>(&mut rest, count)?;
    let logicals = column::<4>(&mut rest, count)?;
    let ordinals = column::<4>(&mut rest, count)?;
    let key_sizes = column::<4>(&mut rest, count)?;
    let value_sizes = column::<4>(&mut rest, count)?;
    let previous_sizes = column::<4>(&mut rest, if plan.previous { count } else { 0 })?;
    let omitted = column::<1>(&mut rest, count)?;
    let mut keys = rest;
    let mut values = rest.get(sum(&key_sizes, count)?..)?;
    let mut before = values.get(sum(&value_sizes, count)?..)?;
    values = &values[..values.len() - before.len()];
    let (mut row, mut replaced) = (RowBuffer::default(), RowBuffer::default());
    for number in 0..count {
        let version = Version {
            key: cut(&mut keys, u32::from_le_bytes(key_sizes.at(number)?))?,
            value: cut(&mut values, u32::from_le_bytes(value_sizes.at(number)?))?,
            time: (
                i64::from_le_bytes(walls.at(number)?),
                i64::from(i32::from_le_bytes(logicals.at(number)?)),
            ),
            previous: match previous_sizes.at(number).map(u32::from_le_bytes) {
                None | Some(NO_PREVIOUS) => None,
                Some(size) => Some(cut(&mut before, size)?),
            },
            omitted: omitted.at(number)? != [0],
            range_id: i64::from_le_bytes(range_ids.at(number)?),
            raft_index: u64::from_le_bytes(raft_indexes.at(number)?),
            ordinal: u32::from_le_bytes(ordinals.at(number)?),
        };
        take(plan, number as u32, &version, &mut row, &mut replaced, output);
    }
    (values.is_empty() && before.is_empty()).then_some(())
}

fn sum(sizes: &Column<4>, count: usize) -> Option<usize> {
    (0..count).try_fold(0usize, |sum, number| sum.checked_add(u32::from_le_bytes(sizes.at(number)?) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_version() -> Vec<u8> {
        let mut message = vec![];
        for number in [11i64, 7, 3] {
            message.extend(number.to_le_bytes());
        }
        for number in [0u32, 1, 4, 2] {
            message.extend(number.to_le_bytes());
        }
        message.push(0);
        message.extend(b"keysvv");
        message
    }

    #[test]
    fn previous_values_are_there_where_the_plan_needs_them() {
        let plan = Plan { tables: vec![], previous: true };
        let mut message = one_version();
        message.splice(24 + 16..24 + 16, 1u32.to_le_bytes());
        let mut output = Output::default();
        assert!(take_versions(&message, 1, &plan, &mut output).is_none());
        message.push(b'p');
        assert!(take_versions(&message, 1, &plan, &mut output).is_some());
        message.pop();
        message.splice(24 + 16..24 + 20, NO_PREVIOUS.to_le_bytes());
        assert!(take_versions(&message, 1, &plan, &mut output).is_some());
    }

    #[test]
    fn a_message_has_exactly_its_versions() {
        let (message, mut output) = (one_version(), Output::default());
        assert!(take_versions(&message, 1, &Plan::default(), &mut output).is_some());
        assert_eq!(output.fates, [0]);
        for end in 0..message.len() {
            assert!(take_versions(&message[..end], 1, &Plan::default(), &mut output).is_none());
        }
        assert!(take_versions(&[&message[..], b"x"].concat(), 1, &Plan::default(), &mut output).is_none());
        assert!(take_versions(&[], 0, &Plan::default(), &mut output).is_some());
    }
}
