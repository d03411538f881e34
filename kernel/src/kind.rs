//! Kinds of columns that the kernel knows: those of `tidegate/rows/types.py`, by the numbers of
//! `tidegate/kernel/plan.py`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A kind that only Python reads. A row with a datum of it is refused; one where it is NULL is not.
    Other,
    Bool,
    Int,
    Float,
    Decimal,
    Text,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
}

impl Kind {
    pub fn of(number: i64) -> Option<Self> {
        Some(match number {
            0 => Kind::Other,
            1 => Kind::Bool,
            2 => Kind::Int,
            3 => Kind::Float,
            4 => Kind::Decimal,
            5 => Kind::Text,
            6 => Kind::Bytes,
            7 => Kind::Uuid,
            8 => Kind::Date,
            9 => Kind::Time,
            10 => Kind::Timestamp,
            11 => Kind::TimestampTz,
            _ => return None,
        })
    }
}
