//! Philox4x32-10. Hand-written because a counter-based generator with a vectorised form that is
//! bit-identical to the scalar one is what the noise needs (`docs/dependencies.md`).

const M0: u32 = 0xd251_1f53;
const M1: u32 = 0xcd9e_8d57;
const W0: u32 = 0x9e37_79b9;
const W1: u32 = 0xbb67_ae85;

/// One block: four words from a key and a counter.
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let ([low], [high]) = philox_lanes::<1>(key, counter.map(|word| [u64::from(word)]));
    [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
}

/// `L` blocks at once, counters given word by word (each word in a u64 of its own, so that a
/// product 32 × 32 → 64 is one vector instruction). A block is two numbers of 64 bits: words 0 and
/// 1, and words 2 and 3.
#[inline(always)]
pub fn philox_lanes<const L: usize>(
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
