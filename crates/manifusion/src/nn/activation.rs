//! Activations with their first two derivatives.
//!
//! The f32 functions are straight-line code that the compiler vectorises under runtime dispatch.
//! `FMA` says whether the instruction set has a fused multiply-add; without it that would be a
//! call. The f64 ones call the system's libm: an f64 network is for checks.

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

use super::real::Real;

/// The nonlinearity φ of the hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// sin z.
    Sine,
    /// z·σ(z), also called SiLU.
    Swish,
    /// tanh z.
    Tanh,
    /// ln(1 + eᶻ).
    Softplus,
}

impl Activation {
    /// `values ← φ(z)`, `first ← φ′(z)`, `second ← φ″(z)`, element by element.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn eval<T: Real>(self, z: &[T], values: &mut [T], first: &mut [T], second: &mut [T]) {
        assert!(z.len() == values.len() && z.len() == first.len() && z.len() == second.len());
        first.copy_from_slice(z);
        pulp::Arch::new().dispatch(Jets { activation: self, values, first, second });
    }
}

struct Jets<'a, T> {
    activation: Activation,
    values: &'a mut [T],
    first: &'a mut [T],
    second: &'a mut [T],
}

impl<T: Real> WithSimd for Jets<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { activation, values, first, second } = self;
        match activation {
            Activation::Sine => jets::<S, Sine, T>(first, values, second),
            Activation::Swish => jets::<S, Swish, T>(first, values, second),
            Activation::Tanh => jets::<S, Tanh, T>(first, values, second),
            Activation::Softplus => jets::<S, Softplus, T>(first, values, second),
        }
    }
}

/// Whether f32's multiply-add is one instruction there.
const fn has_fma<S: Simd>() -> bool {
    !S::IS_SCALAR && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// `values ← φ(z)`, `z ← φ′(z)`, `second ← φ″(z)`: one flat loop, which the compiler vectorises.
#[inline(always)]
pub(crate) fn jets<S: Simd, P: Phi, T: Real>(z: &mut [T], values: &mut [T], second: &mut [T]) {
    if has_fma::<S>() && z.iter().fold(true, |all, z| all & P::is_near(*z)) {
        for ((z, value), second) in z.iter_mut().zip(values).zip(second) {
            [*value, *z, *second] = P::jet_near(*z);
        }
    } else if z.iter().fold(true, |all, z| all & P::holds(*z)) {
        for ((z, value), second) in z.iter_mut().zip(values).zip(second) {
            [*value, *z, *second] = jet_in_range::<S, P, T>(*z);
        }
    } else {
        for ((z, value), second) in z.iter_mut().zip(values).zip(second) {
            [*value, *z, *second] = jet_anywhere::<P, T>(*z, has_fma::<S>());
        }
    }
}

/// `z ← φ(z)`, `first ← φ′(z)`.
#[inline(always)]
pub(crate) fn slopes<S: Simd, P: Phi, T: Real>(z: &mut [T], first: &mut [T]) {
    if has_fma::<S>() && z.iter().fold(true, |all, z| all & P::is_near(*z)) {
        for (z, first) in z.iter_mut().zip(first) {
            [*z, *first, _] = P::jet_near(*z);
        }
    } else if z.iter().fold(true, |all, z| all & P::holds(*z)) {
        for (z, first) in z.iter_mut().zip(first) {
            [*z, *first, _] = jet_in_range::<S, P, T>(*z);
        }
    } else {
        for (z, first) in z.iter_mut().zip(first) {
            [*z, *first, _] = jet_anywhere::<P, T>(*z, has_fma::<S>());
        }
    }
}

/// φ, φ′ and φ″ where [`Phi::holds`]. Which way they are computed depends on the argument alone,
/// not on its neighbours in the loop.
#[inline(always)]
fn jet_in_range<S: Simd, P: Phi, T: Real>(z: T) -> [T; 3] {
    let far = P::jet(z);
    if !has_fma::<S>() {
        return far;
    }
    let (near, is_near) = (P::jet_near(z), P::is_near(z));
    std::array::from_fn(|d| if is_near { near[d] } else { far[d] })
}

/// The slow way, for arguments of any size: the same numbers as the other ways where they hold.
#[cold]
#[inline(never)]
fn jet_anywhere<P: Phi, T: Real>(z: T, fma: bool) -> [T; 3] {
    if fma && P::is_near(z) {
        P::jet_near(z)
    } else if P::holds(z) {
        P::jet(z)
    } else {
        P::jet_anywhere(z)
    }
}

/// An activation as a type, so that each is compiled into its own loop.
pub trait Phi {
    /// φ, φ′ and φ″ with fused multiply-adds, where [`Phi::is_near`].
    fn jet_near<T: Real>(z: T) -> [T; 3];

    /// Whether [`Phi::jet_near`] is accurate here.
    #[inline(always)]
    fn is_near<T: Real>(_z: T) -> bool {
        true
    }

    /// φ, φ′ and φ″ without fused multiply-adds, where [`Phi::holds`].
    fn jet<T: Real>(z: T) -> [T; 3];

    /// Whether [`Phi::jet`] is accurate here.
    #[inline(always)]
    fn holds<T: Real>(_z: T) -> bool {
        true
    }

    /// φ, φ′ and φ″ at any argument.
    #[inline(always)]
    fn jet_anywhere<T: Real>(z: T) -> [T; 3] {
        Self::jet(z)
    }
}

/// [`Activation::Sine`].
#[derive(Debug)]
pub struct Sine;
/// [`Activation::Swish`].
#[derive(Debug)]
pub struct Swish;
/// [`Activation::Tanh`].
#[derive(Debug)]
pub struct Tanh;
/// [`Activation::Softplus`].
#[derive(Debug)]
pub struct Softplus;

impl Phi for Sine {
    #[inline(always)]
    fn jet_near<T: Real>(z: T) -> [T; 3] {
        let (sin, cos) = z.sin_cos_near();
        [sin, cos, -sin]
    }

    #[inline(always)]
    fn is_near<T: Real>(z: T) -> bool {
        z.near_sine_holds()
    }

    #[inline(always)]
    fn jet<T: Real>(z: T) -> [T; 3] {
        let (sin, cos) = z.sin_cos_fast();
        [sin, cos, -sin]
    }

    #[inline(always)]
    fn holds<T: Real>(z: T) -> bool {
        z.fast_sine_holds()
    }

    #[inline(never)]
    fn jet_anywhere<T: Real>(z: T) -> [T; 3] {
        let (sin, cos) = z.to_f64().sin_cos();
        [T::from_f64(sin), T::from_f64(cos), T::from_f64(-sin)]
    }
}

/// e^{−|z|}, σ(z), σ(−z) and σ(z)σ(−z), none with cancellation.
#[inline(always)]
fn logistic<T: Real, const FMA: bool>(z: T) -> [T; 4] {
    let e = (-z.magnitude()).exp_nonpositive::<FMA>();
    let r = T::ONE / (T::ONE + e);
    let (large, small) = (r, e * r);
    let positive = z >= T::ZERO;
    let up = if positive { large } else { small };
    let down = if positive { small } else { large };
    [e, up, down, small * r]
}

impl Phi for Swish {
    #[inline(always)]
    fn jet_near<T: Real>(z: T) -> [T; 3] {
        swish::<T, true>(z)
    }

    #[inline(always)]
    fn jet<T: Real>(z: T) -> [T; 3] {
        swish::<T, false>(z)
    }
}

#[inline(always)]
fn swish<T: Real, const FMA: bool>(z: T) -> [T; 3] {
    let [_, up, down, bell] = logistic::<T, FMA>(z);
    let two = T::ONE + T::ONE;
    [z * up, up + z * bell, bell * (two + z * (down - up))]
}

impl Phi for Tanh {
    #[inline(always)]
    fn jet_near<T: Real>(z: T) -> [T; 3] {
        tanh::<T, true>(z)
    }

    #[inline(always)]
    fn jet<T: Real>(z: T) -> [T; 3] {
        tanh::<T, false>(z)
    }
}

#[inline(always)]
fn tanh<T: Real, const FMA: bool>(z: T) -> [T; 3] {
    let two = T::ONE + T::ONE;
    let e = (-two * z.magnitude()).exp_nonpositive::<FMA>();
    let r = T::ONE / (T::ONE + e);
    let t = z.tanh_from::<FMA>(e, r);
    let first = two * two * e * r * r;
    [t, first, -two * t * first]
}

impl Phi for Softplus {
    #[inline(always)]
    fn jet_near<T: Real>(z: T) -> [T; 3] {
        softplus::<T, true>(z)
    }

    #[inline(always)]
    fn jet<T: Real>(z: T) -> [T; 3] {
        softplus::<T, false>(z)
    }
}

#[inline(always)]
fn softplus<T: Real, const FMA: bool>(z: T) -> [T; 3] {
    let [e, up, _, bell] = logistic::<T, FMA>(z);
    let ramp = if z > T::ZERO { z } else { T::ZERO };
    [ramp + e.ln_1p_unit::<FMA>(), up, bell]
}

/// Up to here [`VectorMath::sin_cos_of`] is accurate.
pub(crate) const FAR_PHASE: f64 = 1e6;

/// The elementary functions behind the activations.
pub trait VectorMath: Sized {
    /// |x|.
    #[must_use]
    fn magnitude(self) -> Self;
    /// √x.
    #[must_use]
    fn root(self) -> Self;
    /// Whether [`VectorMath::sin_cos_fast`] is accurate at this argument.
    fn fast_sine_holds(self) -> bool;
    /// (sin x, cos x).
    fn sin_cos_fast(self) -> (Self, Self);
    /// Whether [`VectorMath::sin_cos_near`] is accurate at this argument.
    fn near_sine_holds(self) -> bool;
    /// (sin x, cos x) of a small argument, with fused multiply-adds.
    fn sin_cos_near(self) -> (Self, Self);
    /// (sin x, cos x) of a double, rounded to this type; |x| up to 10⁶.
    fn sin_cos_of(x: f64) -> (Self, Self);
    /// eˣ for x ≤ 0; values below the smallest normal number become 0.
    #[must_use]
    fn exp_nonpositive<const FMA: bool>(self) -> Self;
    /// tanh x from e = e^{−2|x|} and r = 1/(1 + e).
    #[must_use]
    fn tanh_from<const FMA: bool>(self, e: Self, r: Self) -> Self;
    /// ln(1 + x) for x in [0, 1].
    #[must_use]
    fn ln_1p_unit<const FMA: bool>(self) -> Self;
}

/// a·b + c.
#[inline(always)]
fn muladd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial from its coefficients, highest power first.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = muladd::<FMA>(sum, x, *c);
    }
    sum
}

/// (sin, cos) of r plus a number of quarter turns, |r| ≤ π/4, by polynomials (Cephes, Moshier).
#[inline(always)]
fn quarter_turns<const FMA: bool>(r: f32, quadrant: u32) -> (f32, f32) {
    let z = r * r;
    let sin = polynomial::<FMA, 3>(z, [-1.951_529_6e-4, 8.332_161e-3, -0.166_666_55]);
    let sin = muladd::<FMA>(sin * z, r, r);
    let cos = polynomial::<FMA, 3>(z, [2.443_315_7e-5, -1.388_731_6e-3, 4.166_664_6e-2]);
    let cos = muladd::<FMA>(cos * z, z, muladd::<FMA>(-0.5, z, 1.0));
    // Selection by masks: a branch per lane would keep the loop from being vectorised.
    let odd = 0u32.wrapping_sub(quadrant & 1);
    let (sin, cos) = (sin.to_bits(), cos.to_bits());
    let s = (sin & !odd | cos & odd) ^ ((quadrant & 2) << 30);
    let c = (cos & !odd | sin & odd) ^ ((quadrant.wrapping_add(1) & 2) << 30);
    (f32::from_bits(s), f32::from_bits(c))
}

impl VectorMath for f32 {
    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn fast_sine_holds(self) -> bool {
        f64::from(self).abs() <= FAR_PHASE
    }

    #[inline(always)]
    fn sin_cos_fast(self) -> (Self, Self) {
        Self::sin_cos_of(f64::from(self))
    }

    /// Reduction by π/2 in double precision.
    #[inline(always)]
    fn sin_cos_of(x: f64) -> (Self, Self) {
        // Adding 1.5·2⁵² rounds to the nearest integer and leaves it in the low bits.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        // 33 bits of π/2, so that its product with a quadrant below 2²⁰ is exact, and the rest.
        const HALF_PI_HI: f64 = 1.570_796_326_734_125_6;
        const HALF_PI_LO: f64 = 6.077_100_506_506_192e-11;
        let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
        let quadrant = shifted.to_bits() as u32;
        let turns = shifted - ROUND;
        let r = ((x - turns * HALF_PI_HI) - turns * HALF_PI_LO) as Self;
        quarter_turns::<false>(r, quadrant)
    }

    #[inline(always)]
    fn near_sine_holds(self) -> bool {
        self.abs() <= 64.0
    }

    /// Reduction by π/2 in three parts. Each fused step rounds once, and for the few quadrants here
    /// the first two steps lose nothing where the result is small.
    #[inline(always)]
    fn sin_cos_near(self) -> (Self, Self) {
        const ROUND: f32 = 12_582_912.0;
        const PARTS: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];
        let shifted = self.mul_add(std::f32::consts::FRAC_2_PI, ROUND);
        let turns = ROUND - shifted;
        let r = turns.mul_add(PARTS[0], self);
        let r = turns.mul_add(PARTS[2], turns.mul_add(PARTS[1], r));
        quarter_turns::<true>(r, shifted.to_bits())
    }

    /// x = k ln 2 + r, |r| ≤ ½ ln 2, and a polynomial for eʳ (Cephes, Moshier).
    #[inline(always)]
    fn exp_nonpositive<const FMA: bool>(self) -> Self {
        const ROUND: f32 = 12_582_912.0;
        const SMALLEST: f32 = -87.336_54;
        // NaN stays NaN.
        let x = if self < SMALLEST { SMALLEST } else { self };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let k = shifted - ROUND;
        // ln 2 in two parts; the first has 9 bits, so k times it is exact.
        let r = (x - k * 0.693_359_4) + k * 2.121_944_4e-4;
        let p = polynomial::<FMA, 6>(
            r,
            [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5],
        );
        let mantissa = muladd::<FMA>(p, r * r, r) + 1.0;
        let power = Self::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        if self < SMALLEST { 0.0 } else { mantissa * power }
    }

    /// The quotient (1 − e)/(1 + e), but a polynomial near 0, where 1 − e would cancel.
    #[inline(always)]
    fn tanh_from<const FMA: bool>(self, e: Self, r: Self) -> Self {
        let z = self * self;
        let near = polynomial::<FMA, 5>(
            z,
            [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 0.133_314_42, -0.333_332_8],
        );
        let near = muladd::<FMA>(near * z, self, self);
        let far = ((1.0 - e) * r).copysign(self);
        if self.abs() < 0.625 { near } else { far }
    }

    /// 2 artanh(x/(2 + x)) by its series in w² ≤ 1/9.
    #[inline(always)]
    fn ln_1p_unit<const FMA: bool>(self) -> Self {
        let w = self / (2.0 + self);
        let z = w * w;
        let series = polynomial::<FMA, 7>(
            z,
            [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0],
        );
        2.0 * muladd::<FMA>(w * z, series, w)
    }
}

impl VectorMath for f64 {
    #[inline(always)]
    fn magnitude(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn fast_sine_holds(self) -> bool {
        true
    }
    #[inline(always)]
    fn sin_cos_fast(self) -> (Self, Self) {
        self.sin_cos()
    }
    #[inline(always)]
    fn near_sine_holds(self) -> bool {
        true
    }
    #[inline(always)]
    fn sin_cos_near(self) -> (Self, Self) {
        self.sin_cos()
    }
    #[inline(always)]
    fn sin_cos_of(x: f64) -> (Self, Self) {
        x.sin_cos()
    }
    #[inline(always)]
    fn exp_nonpositive<const FMA: bool>(self) -> Self {
        self.exp()
    }
    #[inline(always)]
    fn tanh_from<const FMA: bool>(self, _e: Self, _r: Self) -> Self {
        self.tanh()
    }
    #[inline(always)]
    fn ln_1p_unit<const FMA: bool>(self) -> Self {
        self.ln_1p()
    }
}
