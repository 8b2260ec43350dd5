//! Philox4x32-10. Hand-written because a counter-based generator with a vectorised form that is
//! bit-identical to the scalar one is what the noise needs (`docs/dependencies.md`).

const M0: u32 = 0xd251_1f53;
const M1: u32 = 0xcd9e_8d57;
const W0: u32 = 0x9e37_79b9;
const W1: u32 = 0xbb67_ae85;

/// One block: four words from a key and a counter.
pub(super) fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let ([low], [high]) = philox_lanes::<1>(key, counter.map(|word| [u64::from(word)]));
    [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
}

/// `L` blocks at once, counters given word by word (each word in a u64 of its own, so that a
/// product 32 × 32 → 64 is one vector instruction). A block is two numbers of 64 bits: words 0 and
/// 1, and words 2 and 3.
#[inline(always)]
pub(super) fn philox_lanes<const L: usize>(
    mut key: [u32; 2],
    counters: [[u64; L]; 4],
) -> ([u64; L], [u64; L]) {
    const LOW: u64 = 0xffff_ffff;
    let [mut c0, mut c1, mut c2, mut c3] = counters;
    for _ in 0..10 {
        let (k0, k1) = (u64::from(key[0]), u64::from(key[1]));
        for l in 0..L {
            // Only the low halves count until the end; the mask here is free, since it is what the
            // instruction multiplies.
            let p0 = u64::from(M0) * (c0[l] & LOW);
            let p1 = u64::from(M1) * (c2[l] & LOW);
            c0[l] = (p1 >> 32) ^ c1[l] ^ k0;
            c1[l] = p1;
            c2[l] = (p0 >> 32) ^ c3[l] ^ k1;
            c3[l] = p0;
        }
        key = [key[0].wrapping_add(W0), key[1].wrapping_add(W1)];
    }
    let (mut low, mut high) = ([0; L], [0; L]);
    for l in 0..L {
        low[l] = (c0[l] & LOW) | c1[l] << 32;
        high[l] = (c2[l] & LOW) | c3[l] << 32;
    }
    (low, high)
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
        let key = [3, 5];
        let blocks: [u64; 8] = std::array::from_fn(|l| 100 + l as u64);
        let (low, high) = philox_lanes(key, [blocks, [11; 8], [12; 8], [13; 8]]);
        for l in 0..8 {
            let [a, b, c, d] = philox(key, [100 + l as u32, 11, 12, 13]).map(u64::from);
            assert_eq!((a | b << 32, c | d << 32), (low[l], high[l]));
        }
    }
}
