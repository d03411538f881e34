//! Values and keys as templates that are filled for each row, as `tidegate/changefeed/encoding/row_templates.py` has
//! them. Python makes them: no option is known here.

use crate::avro::{datum_avro, hlc_avro, long};
use crate::connect::{datum_connect, Place};
use crate::datum::Datum;
use crate::datum_text::hlc_text;
use crate::json_text::datum_json;
use crate::kind::Type;
use crate::number_text::decimal;
use crate::plan::Timestamp;
use crate::row::TEXT_MAX;

const NANOS_PER_MS: i64 = 1_000_000;

/// Which datums of a row: those of its key, of its columns, or of the columns of the row before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Key,
    Values,
    Previous,
}

/// How a slot prints.
#[derive(Clone, Debug, PartialEq)]
pub enum Print {
    /// A datum as JSON.
    Json(Type),
    /// The row's commit timestamp as a decimal.
    Hlc,
    /// Its wall time in nanoseconds.
    WallNanos,
    /// The same in milliseconds.
    WallMillis,
    /// A datum as Avro, with the branch of its union.
    Avro(Type),
    /// The row's commit timestamp as a decimal in a string of Avro.
    AvroHlc,
    /// Its wall time in nanoseconds as a long of Avro.
    AvroWallNanos,
    /// The same in milliseconds.
    AvroWallMillis,
    /// A datum as Avro with the types of Kafka Connect.
    Connect(Type, Place),
}

/// A place in a template: which of the datums goes there, and how it prints.
#[derive(Clone, Debug)]
pub struct Slot {
    pub part: Part,
    pub at: usize,
    pub print: Print,
}

/// The datums that templates are filled with.
#[derive(Clone, Copy)]
pub struct Datums<'r, 'a> {
    pub key: &'r [Datum<'a>],
    pub values: &'r [Datum<'a>],
    pub previous: &'r [Datum<'a>],
    /// Text of datums of the row, and of the row before.
    pub scratch: &'r [u8],
    pub previous_scratch: &'r [u8],
    pub time: Timestamp,
}

/// Text around slots: one literal before each slot, and one behind the last.
#[derive(Debug)]
pub struct Template {
    pub slots: Vec<(Vec<u8>, Slot)>,
    pub last: Vec<u8>,
}

impl Template {
    /// Appends the text for the datums. Refuses a datum that only Python prints, and a text that is too long.
    pub fn fill(&self, out: &mut Vec<u8>, datums: &Datums) -> Option<()> {
        let start = out.len();
        for (literal, slot) in &self.slots {
            out.extend_from_slice(literal);
            let (of, scratch) = match slot.part {
                Part::Key => (datums.key, datums.scratch),
                Part::Values => (datums.values, datums.scratch),
                Part::Previous => (datums.previous, datums.previous_scratch),
            };
            match &slot.print {
                Print::Json(as_type) => datum_json(out, of.get(slot.at)?, as_type, scratch)?,
                Print::Hlc => hlc_text(out, datums.time.0, datums.time.1),
                Print::WallNanos => decimal(out, datums.time.0),
                Print::Avro(as_type) => datum_avro(out, of.get(slot.at)?, as_type, scratch)?,
                Print::AvroHlc => hlc_avro(out, datums.time.0, datums.time.1),
                Print::AvroWallNanos => long(out, datums.time.0),
                Print::AvroWallMillis => long(out, datums.time.0.div_euclid(NANOS_PER_MS)),
                Print::Connect(as_type, place) => {
                    datum_connect(out, of.get(slot.at)?, as_type, *place, scratch)?;
                }
                Print::WallMillis => decimal(out, datums.time.0.div_euclid(NANOS_PER_MS)),
            }
            if out.len() - start > TEXT_MAX {
                return None;
            }
        }
        out.extend_from_slice(&self.last);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn filled(slots: &[(&[u8], Part, usize, Print)], last: &[u8]) -> Option<String> {
        let slots = slots.iter().map(|(literal, part, at, print)| {
            (literal.to_vec(), Slot { part: *part, at: *at, print: print.clone() })
        });
        let template = Template { slots: slots.collect(), last: last.to_vec() };
        let datums = Datums {
            key: &[Datum::Int(7)],
            values: &[Datum::Null, Datum::Int(8)],
            previous: &[Datum::Int(9)],
            scratch: &[],
            previous_scratch: &[],
            time: (-5_000_001, 1),
        };
        let mut out = vec![];
        template.fill(&mut out, &datums)?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn slots_stand_between_literals_and_name_their_part() {
        let int = || Print::Json(Kind::Int.into());
        let slots: &[(&[u8], Part, usize, Print)] = &[
            (b"[", Part::Key, 0, int()),
            (b", ", Part::Values, 0, int()),
            (b", ", Part::Values, 1, int()),
            (b", ", Part::Previous, 0, int()),
        ];
        assert_eq!(filled(slots, b"]").unwrap(), "[7, null, 8, 9]");
    }

    #[test]
    fn times_are_exact_or_of_the_wall() {
        let slots: &[(&[u8], Part, usize, Print)] = &[
            (b"", Part::Key, 0, Print::Hlc),
            (b" ", Part::Key, 0, Print::WallNanos),
            (b" ", Part::Key, 0, Print::WallMillis),
            (b" ", Part::Key, 0, Print::AvroHlc),
            (b" ", Part::Key, 0, Print::AvroWallMillis),
        ];
        let expected = "-5000001.0000000001 -5000001 -6 &-5000001.0000000001 \u{b}";
        assert_eq!(filled(slots, b"").unwrap(), expected);
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_at_the_slot_that_makes_it_so() {
        let long = "l".repeat(1 << 20);
        let datums = Datums {
            key: &[Datum::Text(&long)],
            values: &[],
            previous: &[],
            scratch: &[],
            previous_scratch: &[],
            time: (0, 0),
        };
        let slot = || Slot { part: Part::Key, at: 0, print: Print::Json(Kind::Text.into()) };
        for (count, is_taken) in [(15, true), (16, false), (100, false)] {
            let slots = (0..count).map(|_| (vec![], slot())).collect();
            let mut out = vec![0; TEXT_MAX]; // rows before it do not count
            assert_eq!(Template { slots, last: vec![] }.fill(&mut out, &datums).is_some(), is_taken);
            assert!(out.len() < 2 * TEXT_MAX + (2 << 20));
        }
    }

    #[test]
    fn a_slot_without_a_datum_is_refused() {
        assert!(filled(&[(b"", Part::Previous, 1, Print::Json(Kind::Int.into()))], b"").is_none());
    }
}
