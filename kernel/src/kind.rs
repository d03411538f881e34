//! Types of columns that the kernel knows: those of `tidegate/rows/types.py`, by the numbers of
//! `tidegate/kernel/plan.py`.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A kind that only Python reads. A row with a datum of it is refused; one where it is NULL is not.
    #[default]
    Other,
    Bool,
    Int,
    Float,
    Decimal,
    /// STRING, and strings with a collation.
    Text,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Json,
    Interval,
    Inet,
    TimeTz,
    Bits,
    Oid,
    Lsn,
    Enum,
    Array,
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
            12 => Kind::Json,
            13 => Kind::Interval,
            14 => Kind::Inet,
            15 => Kind::TimeTz,
            16 => Kind::Bits,
            17 => Kind::Oid,
            18 => Kind::Lsn,
            19 => Kind::Enum,
            20 => Kind::Array,
            _ => return None,
        })
    }
}

/// A column's type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Type {
    pub kind: Kind,
    /// The kind of an array's elements.
    pub element: Kind,
    /// Digits of a DECIMAL, and places behind its point; those of an array's elements.
    pub precision: i64,
    pub scale: i64,
    /// The bytes and the label of each member of an enum, by rising bytes.
    pub labels: Vec<(Vec<u8>, String)>,
}

impl From<Kind> for Type {
    fn from(kind: Kind) -> Self {
        Type { kind, ..Type::default() }
    }
}
