//! The partition of a key, as `tidegate/changefeed/encoding/partition.py` chooses it.

/// FNV-1a of 32 bits, taken as a signed number without its sign; then the remainder.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let hash =
        key.iter().fold(2_166_136_261u32, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(16_777_619));
    hash.cast_signed().unsigned_abs() % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_its_authors() {
        assert_eq!(partition_of(b"", u32::MAX), 2_166_136_261u32.cast_signed().unsigned_abs());
        assert_eq!(partition_of(b"a", u32::MAX), 0xe40c_292cu32.cast_signed().unsigned_abs());
        assert!(partition_of(b"[1]", 4) < 4);
    }
}
