//! CRC-32 (IEEE), as `zlib.crc32` computes it: eight bytes at a time.

const POLYNOMIAL: u32 = 0xedb8_8320;
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of the parts, one behind the other.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |sum, part| updated(sum, part))
}

fn updated(mut sum: u32, bytes: &[u8]) -> u32 {
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let low = sum ^ u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]);
        sum = TABLES[7][(low & 0xff) as usize]
            ^ TABLES[6][(low >> 8 & 0xff) as usize]
            ^ TABLES[5][(low >> 16 & 0xff) as usize]
            ^ TABLES[4][(low >> 24) as usize]
            ^ TABLES[3][usize::from(eight[4])]
            ^ TABLES[2][usize::from(eight[5])]
            ^ TABLES[1][usize::from(eight[6])]
            ^ TABLES[0][usize::from(eight[7])];
    }
    for byte in eights.remainder() {
        sum = sum >> 8 ^ TABLES[0][((sum ^ u32::from(*byte)) & 0xff) as usize];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_polynomial() {
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[b"1234", b"", b"56789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[]), 0);
    }
}
