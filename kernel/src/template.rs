//! JSON objects as templates that are filled for each row, as `tidegate/changefeed/encoding/json/template.py`
//! has them. Python makes them: no option is known here.

use crate::datum::Datum;
use crate::datum_text::hlc_text;
use crate::json_text::datum_json;
use crate::kind::Kind;

/// A place in a template: which of the datums goes there, and its kind.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub at: usize,
    pub kind: Kind,
}

/// Text around slots: one literal before each slot, and one behind the last.
pub struct Template {
    pub slots: Vec<(Vec<u8>, Slot)>,
    pub last: Vec<u8>,
}

impl Template {
    /// Appends the text for the datums. Refuses a datum that only Python prints.
    pub fn fill(&self, out: &mut Vec<u8>, datums: &[Datum], wall: i64, logical: i64) -> Option<()> {
        for (literal, slot) in &self.slots {
            out.extend_from_slice(literal);
            if slot.kind == Kind::Hlc {
                hlc_text(out, wall, logical);
            } else {
                datum_json(out, datums.get(slot.at)?, slot.kind)?;
            }
        }
        out.extend_from_slice(&self.last);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Template {
        let slot = Slot { at: 1, kind: Kind::Int };
        let hlc = Slot { at: 0, kind: Kind::Hlc };
        Template {
            slots: vec![(b"{\"a\": ".to_vec(), slot), (b", \"t\": \"".to_vec(), hlc)],
            last: b"\"}".to_vec(),
        }
    }

    #[test]
    fn slots_stand_between_literals() {
        let mut out = vec![];
        template().fill(&mut out, &[Datum::Null, Datum::Int(7)], 5, 1).unwrap();
        assert_eq!(out, b"{\"a\": 7, \"t\": \"5.0000000001\"}");
    }

    #[test]
    fn a_slot_without_a_datum_is_refused() {
        assert!(template().fill(&mut vec![], &[Datum::Null], 5, 1).is_none());
    }
}
