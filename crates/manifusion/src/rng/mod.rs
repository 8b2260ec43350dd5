//! Random numbers from named, counter-based streams.
//!
//! A [`Streams`] is made from a seed and a purpose ("noise", "probes", …); row and step select a
//! stream inside it, so a draw depends on (seed, purpose, row, step) alone: never on the thread
//! count, the batch size or the order of evaluation. The generator is Philox4x32-10 (Salmon,
//! Moraes, Dror & Shaw, SC'11), whose counter holds row and step, so the streams of one purpose
//! cannot overlap.

pub(crate) mod normal;
pub(crate) mod philox;

use rand_core::{TryRng, utils};
use std::convert::Infallible;

use philox::philox;

/// All streams of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    key: [u32; 2],
}

impl Streams {
    /// The streams of `purpose` under `seed`. Distinct purposes are independent.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self::from_key(mix(seed ^ mix(fnv1a(purpose))))
    }

    /// The streams of one part of this purpose (an epoch, a path of a bound), independent of the
    /// parent's and of every other part's.
    #[must_use]
    pub fn part(&self, index: u64) -> Self {
        let key = u64::from(self.key[0]) | u64::from(self.key[1]) << 32;
        Self::from_key(mix(key ^ mix(index ^ 0x5bf0_3635_dcd2_d1a5)))
    }

    fn from_key(key: u64) -> Self {
        Self { key: [key as u32, (key >> 32) as u32] }
    }

    /// The stream of one row and step, as a generator for any distribution.
    ///
    /// Row and step count to 2⁴⁸ each.
    pub fn stream(&self, row: u64, step: u64) -> Stream {
        Stream { key: self.key, next: counter(row, step), words: [0; 4], used: 4 }
    }

    /// Standard normals number `4·first_block`, … of one row and step, in bulk and vectorised.
    ///
    /// The normals of a (row, step) form one sequence with random access by fours: a long sequence
    /// can be drawn in pieces whose lengths are multiples of four, and the pieces are the same bits
    /// as the whole.
    pub fn fill_normal(&self, row: u64, step: u64, first_block: u32, out: &mut [f64]) {
        normal::fill(self.key, counter(row, step), first_block, out);
    }

    /// Normals number 4·`block` to 4·`block` + 3 of `L` consecutive rows at step 0: the same
    /// numbers as [`Self::fill_normal`], with rows in lanes. Vectorised where the caller is.
    #[inline(always)]
    pub(crate) fn row_normals<const L: usize>(&self, first_row: u64, block: u32) -> [[f64; L]; 4] {
        normal::row_normals(self.key, first_row, block)
    }
}

/// Philox's counter at block 0: word 0 counts blocks, the others hold step and row.
#[inline(always)]
fn counter(row: u64, step: u64) -> [u32; 4] {
    debug_assert!(row < 1 << 48 && step < 1 << 48, "row {row} or step {step} beyond 2^48");
    [0, step as u32, row as u32, ((step >> 32) as u32 & 0xffff) | ((row >> 32) as u32) << 16]
}

/// SplitMix64's finaliser: a bijection of u64 without visible structure.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn fnv1a(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The sequence of one (seed, purpose, row, step); a [`rand_core::Rng`].
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    next: [u32; 4],
    words: [u32; 4],
    used: usize,
}

impl Stream {
    fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.words = philox(self.key, self.next);
            self.next[0] = self.next[0].wrapping_add(1);
            self.used = 0;
        }
        let word = self.words[self.used];
        self.used += 1;
        word
    }

    /// Uniform on (0, 1], with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        let bits = u64::from(self.word()) | u64::from(self.word()) << 32;
        ((bits >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        rand_distr::Distribution::sample(&rand_distr::StandardNormal, self)
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from(self.word()) | u64::from(self.word()) << 32)
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(dst, || self.try_next_u64())
    }
}
