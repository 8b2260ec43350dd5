//! Round numbers along an axis.

use crate::text::number;

/// Multiples of 1, 2 or 5 times a power of ten within an interval.
#[derive(Clone, Debug)]
pub struct Ticks {
    values: Vec<f64>,
    decimals: usize,
}

impl Ticks {
    /// About `count` ticks in `[low, high]`, at least two where the interval allows.
    pub fn new(low: f64, high: f64, count: usize) -> Self {
        let span = high - low;
        if !(span > 0.0) || !span.is_finite() {
            return Self { values: vec![low], decimals: 2 };
        }
        let rough = span / count.max(2) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|s| *s >= rough * 0.999)
            .unwrap_or(power);
        let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        Self { values: (first..=last).map(|i| i as f64 * step).collect(), decimals }
    }

    /// Each value with its text; numbers of many digits in powers of ten.
    pub fn labels(&self) -> Vec<(f64, String)> {
        let largest = self.values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let text = |v: f64| {
            if (largest >= 1e5 || self.decimals > 4) && v != 0.0 {
                scientific(v)
            } else {
                number(v, self.decimals)
            }
        };
        self.values.iter().map(|&v| (v, text(v))).collect()
    }

    /// Powers of ten in `[low, high]` (given as base-ten logarithms), thinned to about `count`;
    /// with too few of them, 2 and 5 times a power as well.
    pub fn powers(low: f64, high: f64, count: usize) -> Vec<(f64, String)> {
        let every = ((high - low) / count as f64).ceil().max(1.0) as i64;
        let (first, last) = (low.ceil() as i64, high.floor() as i64);
        let mut marks: Vec<(f64, String)> = (first..=last)
            .filter(|i| i.rem_euclid(every) == 0)
            .map(|i| (i as f64, scientific(10f64.powi(i as i32))))
            .collect();
        if marks.len() < 2 {
            marks = (first - 1..=last)
                .flat_map(|i| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(i as i32)))
                .filter(|v| (low..=high).contains(&v.log10()))
                .map(|v| (v.log10(), scientific(v)))
                .collect();
        }
        marks
    }
}

/// `0.02`, `300`, `2·10⁵`.
fn scientific(v: f64) -> String {
    let power = (v.abs().log10() + 1e-9).floor() as i32;
    if (-3..=4).contains(&power) {
        return number(v, (-power).max(0) as usize);
    }
    let digits: String = power
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => char::from_u32(0x2070 + c as u32 - '0' as u32).unwrap_or(c),
        })
        .collect();
    let mantissa = v / 10f64.powi(power);
    if (mantissa - 1.0).abs() < 1e-6 {
        format!("10{digits}")
    } else {
        format!("{}·10{digits}", number(mantissa, usize::from(mantissa.fract().abs() > 0.05)))
    }
}
