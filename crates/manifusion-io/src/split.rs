//! Training, validation and test rows.

use manifusion::rng::Streams;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

use crate::dataset::Dataset;
use crate::duplicates::first_equal;
use crate::error::SplitError;
use crate::hash::sha256_hex;

/// How to divide.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SplitSettings {
    /// Shares of training, validation and test; they add up to 1.
    pub fractions: [f64; 3],
    /// Of the shuffle.
    pub seed: u64,
    /// Whether only the first of equal rows is kept.
    pub dedup: bool,
}

impl Default for SplitSettings {
    /// 80 %, 10 %, 10 %, seed 0, all rows.
    fn default() -> Self {
        Self { fractions: [0.8, 0.1, 0.1], seed: 0, dedup: false }
    }
}

/// The rows of each part, as indices from 0 in the order of the shuffle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// How it was made.
    pub settings: SplitSettings,
    /// Whether groups were kept together.
    pub grouped: bool,
    /// Rows there were.
    pub rows: usize,
    /// Rows to learn from.
    pub train: Vec<usize>,
    /// Rows to choose by.
    pub validation: Vec<usize>,
    /// Rows to judge by.
    pub test: Vec<usize>,
    /// Test rows whose point also occurs in training.
    pub test_in_train: usize,
}

impl Split {
    /// Divides the points of a data set, its groups kept together if it has them.
    pub fn of(data: &Dataset, settings: SplitSettings) -> Result<Self, SplitError> {
        Self::new(&data.points, data.width, data.groups.as_deref(), settings)
    }

    /// Divides rows of `width` coordinates. The shuffle depends on the seed and the number of rows (or groups) alone.
    pub fn new(
        points: &[f64],
        width: usize,
        groups: Option<&[String]>,
        settings: SplitSettings,
    ) -> Result<Self, SplitError> {
        check_fractions(settings.fractions)?;
        if width == 0 || !points.len().is_multiple_of(width) {
            return Err(SplitError::PointWidth { found: points.len(), width });
        }
        let rows = points.len() / width;
        if let Some(groups) = groups.filter(|groups| groups.len() != rows) {
            return Err(SplitError::GroupCount { groups: groups.len(), rows });
        }
        let first = first_equal(points, width);
        let kept: Vec<usize> =
            (0..rows).filter(|&row| !settings.dedup || first[row] == row).collect();
        let [train, validation, test] = match groups {
            None => by_rows(kept, &settings)?,
            Some(groups) => by_groups(&kept, groups, &settings)?,
        };
        let learned: HashSet<usize> = train.iter().map(|&row| first[row]).collect();
        let test_in_train = test.iter().filter(|&&row| learned.contains(&first[row])).count();
        let grouped = groups.is_some();
        Ok(Self { settings, grouped, rows, train, validation, test, test_in_train })
    }

    /// The share of test rows whose point also occurs in training.
    pub fn test_in_train_share(&self) -> f64 {
        self.test_in_train as f64 / self.test.len() as f64
    }

    /// SHA-256 of settings and indices, equal for equal splits on every machine. The bytes, little-endian: the text
    /// "manifusion split 1", the three fractions as f64, the seed as u64, dedup and grouped as one byte each, the number of rows as
    /// u64, and for each part its length and its indices as u64.
    pub fn hash(&self) -> String {
        let SplitSettings { fractions, seed, dedup } = self.settings;
        let mut bytes = b"manifusion split 1".to_vec();
        for fraction in fractions {
            bytes.extend(fraction.to_bits().to_le_bytes());
        }
        bytes.extend(seed.to_le_bytes());
        bytes.extend([u8::from(dedup), u8::from(self.grouped)]);
        bytes.extend((self.rows as u64).to_le_bytes());
        for part in [&self.train, &self.validation, &self.test] {
            bytes.extend((part.len() as u64).to_le_bytes());
            for &row in part {
                bytes.extend((row as u64).to_le_bytes());
            }
        }
        sha256_hex(&bytes)
    }
}

fn check_fractions([train, validation, test]: [f64; 3]) -> Result<(), SplitError> {
    let positive = train > 0.0 && validation > 0.0 && test > 0.0;
    if positive && ((train + validation + test) - 1.0).abs() <= 1e-9 {
        return Ok(());
    }
    Err(SplitError::Fractions { train, validation, test })
}

/// Fisher and Yates' shuffle from the stream of the seed.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut stream = Streams::new(seed, "split").stream(0, 0);
    for last in (1..items.len()).rev() {
        let other = ((1.0 - stream.uniform()) * (last + 1) as f64) as usize;
        items.swap(last, other.min(last));
    }
}

fn by_rows(mut kept: Vec<usize>, settings: &SplitSettings) -> Result<[Vec<usize>; 3], SplitError> {
    let rows = kept.len();
    let share = |fraction: f64| (fraction * rows as f64).round() as usize;
    let [_, validation, test] = settings.fractions.map(share);
    let train = rows.saturating_sub(validation + test);
    if train == 0 || validation == 0 || test == 0 {
        let what = if settings.dedup { "distinct rows" } else { "rows" };
        return Err(SplitError::TooFew { rows, what, train, validation, test });
    }
    shuffle(&mut kept, settings.seed);
    let test = kept.split_off(train + validation);
    let validation = kept.split_off(train);
    Ok([kept, validation, test])
}

/// Whole groups in shuffled order, each to the part that lacks most rows; when as few groups are left as parts are empty, each
/// goes to an empty one.
fn by_groups(
    kept: &[usize],
    names: &[String],
    settings: &SplitSettings,
) -> Result<[Vec<usize>; 3], SplitError> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for &row in kept {
        members.entry(&names[row]).or_default().push(row);
    }
    if members.len() < 3 {
        return Err(SplitError::TooFewGroups { found: members.len() });
    }
    let mut groups: Vec<Vec<usize>> = members.into_values().collect();
    // By first row, so that the order does not depend on how the groups are named.
    groups.sort_by_key(|rows| rows[0]);
    shuffle(&mut groups, settings.seed);
    let targets = settings.fractions.map(|fraction| fraction * kept.len() as f64);
    let mut parts: [Vec<usize>; 3] = Default::default();
    let count = groups.len();
    for (index, group) in groups.into_iter().enumerate() {
        let empty = parts.iter().filter(|part| part.is_empty()).count();
        let must_fill = count - index <= empty;
        let lack = |part: usize| targets[part] - parts[part].len() as f64;
        let chosen = (0..3)
            .filter(|&part| !must_fill || parts[part].is_empty())
            .max_by(|&a, &b| lack(a).total_cmp(&lack(b)).then(b.cmp(&a)))
            .unwrap_or(0);
        parts[chosen].extend(group);
    }
    Ok(parts)
}
