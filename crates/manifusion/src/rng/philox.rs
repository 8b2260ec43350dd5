//! Philox4x32-10. Hand-written because a counter-based generator with a vectorised form that is
//! bit-identical to the scalar one is what the noise needs (`docs/dependencies.md`).

const M0: u32 = 0xd251_1f53;
const M1: u32 = 0xcd9e_8d57;
const W0: u32 = 0x9e37_79b9;
const W1: u32 = 0xbb67_ae85;

/// One block: four words from a key and a counter.
pub(super) fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let lanes = philox_lanes::<1>(key, counter, 0);
    [lanes[0][0], lanes[1][0], lanes[2][0], lanes[3][0]]
}

/// `L` consecutive blocks, word by word: `out[w][l]` is word `w` of block `first + l`.
#[inline(always)]
pub(super) fn philox_lanes<const L: usize>(
    mut key: [u32; 2],
    counter: [u32; 4],
    first: u32,
) -> [[u32; L]; 4] {
    // Each u32 sits in a u64 so that the 32 × 32 → 64 products map to one vector instruction.
    let mut c = counter.map(|word| [u64::from(word); L]);
    for l in 0..L {
        c[0][l] = u64::from(counter[0].wrapping_add(first).wrapping_add(l as u32));
    }
    for _ in 0..10 {
        for l in 0..L {
            let p0 = u64::from(M0) * c[0][l];
            let p1 = u64::from(M1) * c[2][l];
            c[0][l] = (p1 >> 32) ^ c[1][l] ^ u64::from(key[0]);
            c[1][l] = p1 & 0xffff_ffff;
            c[2][l] = (p0 >> 32) ^ c[3][l] ^ u64::from(key[1]);
            c[3][l] = p0 & 0xffff_ffff;
        }
        key = [key[0].wrapping_add(W0), key[1].wrapping_add(W1)];
    }
    c.map(|word| word.map(|value| value as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the Random123 library (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(philox([0, 0], [0; 4]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(
            philox([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
        );
        assert_eq!(
            philox([0xa4093822, 0x299f31d0], [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn lanes_equal_single_blocks() {
        let (key, counter) = ([3, 5], [0, 11, 12, 13]);
        let lanes = philox_lanes::<8>(key, counter, 100);
        for l in 0..8 {
            let block = philox(key, [100 + l as u32, 11, 12, 13]);
            assert_eq!(block, [lanes[0][l], lanes[1][l], lanes[2][l], lanes[3][l]]);
        }
    }
}
