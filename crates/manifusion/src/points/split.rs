//! Training, validation and test rows.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Points;
use super::duplicates::first_equal;
use crate::hash::sha256_hex;
use crate::rng::Streams;

/// Why rows cannot be divided into training, validation and test parts.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Fractions that are not positive or do not add up to 1.
    #[error("the fractions {train}, {validation} and {test} must be positive and add up to 1")]
    Fractions {
        /// Training.
        train: f64,
        /// Validation.
        validation: f64,
        /// Test.
        test: f64,
    },
    /// A part would be empty.
    #[error(
        "{rows} {what} are too few: the parts would have {train}, {validation} and {test} rows, and each needs at least one"
    )]
    TooFew {
        /// Rows to divide.
        rows: usize,
        /// "rows" or "distinct rows".
        what: &'static str,
        /// Rows of the training part.
        train: usize,
        /// Rows of the validation part.
        validation: usize,
        /// Rows of the test part.
        test: usize,
    },
    /// Groups are kept together, so three parts need three of them.
    #[error("there are {found} groups, and whole groups in three parts need at least 3")]
    TooFewGroups {
        /// Groups found.
        found: usize,
    },
    /// One group name per row is needed.
    #[error("there are {groups} group names for {rows} rows")]
    GroupCount {
        /// Names given.
        groups: usize,
        /// Rows given.
        rows: usize,
    },
    /// A row that there is not.
    #[error("row {row} is not there: there are {rows} rows, counted from 0")]
    NoSuchRow {
        /// The row.
        row: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A row that is listed twice.
    #[error("row {row} is listed twice: in {first} and in {second}")]
    RowTwice {
        /// The row.
        row: usize,
        /// Where it is listed first.
        first: SplitPart,
        /// Where it is listed again.
        second: SplitPart,
    },
    /// A part without rows.
    #[error(
        "there are {train} rows for training, {validation} for validation and {test} for test, and each part needs at least one"
    )]
    EmptyPart {
        /// Rows of the training part.
        train: usize,
        /// Rows of the validation part.
        validation: usize,
        /// Rows of the test part.
        test: usize,
    },
    /// Points whose coordinates do not fill rows.
    #[error("{found} coordinates are not rows of {width}")]
    PointWidth {
        /// Coordinates given.
        found: usize,
        /// Coordinates of a point.
        width: usize,
    },
}

/// A part of divided data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitPart {
    /// What is learned from.
    Train,
    /// What choices are made by.
    Validation,
    /// What a model is judged on.
    Test,
}

impl fmt::Display for SplitPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        })
    }
}

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
    /// Divides points, their groups kept together if they have any.
    pub fn of(points: &Points, settings: SplitSettings) -> Result<Self, SplitError> {
        let width = points.manifold().ambient_dim();
        Self::new(points.coordinates(), width, points.groups(), settings)
    }

    /// The rows of one part.
    pub fn part(&self, part: SplitPart) -> &[usize] {
        match part {
            SplitPart::Train => &self.train,
            SplitPart::Validation => &self.validation,
            SplitPart::Test => &self.test,
        }
    }

    /// Divides rows of `width` coordinates. The shuffle depends on the seed and the number of rows
    /// (or groups) alone.
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
        let test_in_train = repeated(&first, &train, &test);
        let grouped = groups.is_some();
        Ok(Self { settings, grouped, rows, train, validation, test, test_in_train })
    }

    /// The division that a list of rows gives; rows that are not listed are left out. The order
    /// within a part is a shuffle of `seed`, whatever the order of the list.
    pub fn of_list(
        points: &Points,
        list: &[(usize, SplitPart)],
        seed: u64,
    ) -> Result<Self, SplitError> {
        let rows = points.len();
        let mut part_of: Vec<Option<SplitPart>> = vec![None; rows];
        for &(row, second) in list {
            let place = part_of.get_mut(row).ok_or(SplitError::NoSuchRow { row, rows })?;
            if let Some(first) = place.replace(second) {
                return Err(SplitError::RowTwice { row, first, second });
            }
        }
        let parts = [SplitPart::Train, SplitPart::Validation, SplitPart::Test];
        let [mut train, mut validation, mut test] = parts
            .map(|part| (0..rows).filter(|row| part_of[*row] == Some(part)).collect::<Vec<_>>());
        let counts = [train.len(), validation.len(), test.len()];
        if counts.contains(&0) {
            let [train, validation, test] = counts;
            return Err(SplitError::EmptyPart { train, validation, test });
        }
        for (number, part) in (1..).zip([&mut train, &mut validation, &mut test]) {
            shuffle(part, seed, number);
        }
        let first = first_equal(points.coordinates(), points.manifold().ambient_dim());
        let test_in_train = repeated(&first, &train, &test);
        let fractions = counts.map(|count| count as f64 / list.len() as f64);
        let settings = SplitSettings { fractions, seed, dedup: false };
        Ok(Self { settings, grouped: false, rows, train, validation, test, test_in_train })
    }

    /// Nine tenths to learn from and one to choose by, for whoever judges elsewhere: there are no
    /// test rows.
    pub fn without_test(points: &Points, seed: u64) -> Result<Self, SplitError> {
        let (train, validation) = hold_out(points, HELD_OUT, seed)?;
        let fractions = [1.0 - HELD_OUT, HELD_OUT, 0.0];
        Ok(Self {
            settings: SplitSettings { fractions, seed, dedup: false },
            grouped: points.groups().is_some(),
            rows: points.len(),
            train,
            validation,
            test: Vec::new(),
            test_in_train: 0,
        })
    }

    /// The share of test rows whose point also occurs in training; 0 where there are no test rows.
    pub fn test_in_train_share(&self) -> f64 {
        self.test_in_train as f64 / self.test.len().max(1) as f64
    }

    /// SHA-256 of settings and indices, equal for equal splits on every machine. The bytes,
    /// little-endian: the text "manifusion split 1", the three fractions as f64, the seed as u64,
    /// dedup and grouped as one byte each, the number of rows as u64, and for each part its length
    /// and its indices as u64.
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

/// Test rows whose point also occurs in training; `first` has for each row the first equal one.
fn repeated(first: &[usize], train: &[usize], test: &[usize]) -> usize {
    let mut is_learned = vec![false; first.len()];
    for &row in train {
        is_learned[first[row]] = true;
    }
    test.iter().filter(|&&row| is_learned[first[row]]).count()
}

fn check_fractions([train, validation, test]: [f64; 3]) -> Result<(), SplitError> {
    let positive = train > 0.0 && validation > 0.0 && test > 0.0;
    if positive && ((train + validation + test) - 1.0).abs() <= 1e-9 {
        return Ok(());
    }
    Err(SplitError::Fractions { train, validation, test })
}

/// The number of the shuffle behind a random choice of points; those of the parts are below.
pub(super) const SOME: u64 = 4;

/// Fisher and Yates' shuffle from a stream of the seed.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64, number: u64) {
    let mut stream = Streams::new(seed, "split").stream(number, 0);
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
    shuffle(&mut kept, settings.seed, 0);
    let test = kept.split_off(train + validation);
    let validation = kept.split_off(train);
    Ok([kept, validation, test])
}

/// Whole groups in shuffled order, each to the part that lacks most rows; when as few groups are
/// left as parts are empty, each goes to an empty one.
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
    shuffle(&mut groups, settings.seed, 0);
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
    // Whoever takes the first rows of a part takes a random sample of it, not a few groups.
    for (number, part) in (1..).zip(&mut parts) {
        shuffle(part, settings.seed, number);
    }
    Ok(parts)
}

/// The share of the points that is held out where no validation points are given.
pub(crate) const HELD_OUT: f64 = 0.1;

/// Rows to keep and rows to hold out, about this share of all; whole groups where points have any.
pub fn hold_out(
    points: &Points,
    share: f64,
    seed: u64,
) -> Result<(Vec<usize>, Vec<usize>), SplitError> {
    let rows = points.len();
    let mut groups: Vec<Vec<usize>> = match points.groups() {
        None => (0..rows).map(|row| vec![row]).collect(),
        Some(names) => {
            let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
            for (row, name) in names.iter().enumerate() {
                members.entry(name).or_default().push(row);
            }
            let mut groups: Vec<_> = members.into_values().collect();
            groups.sort_by_key(|rows| rows[0]);
            groups
        }
    };
    shuffle(&mut groups, seed, 0);
    let wanted = ((share * rows as f64).round() as usize).max(1);
    let mut held_out: Vec<usize> = Vec::new();
    while held_out.len() < wanted
        && groups.len() > 1
        && let Some(group) = groups.pop()
    {
        held_out.extend(group);
    }
    let mut kept: Vec<usize> = groups.into_iter().flatten().collect();
    if held_out.is_empty() || kept.is_empty() {
        let (train, validation) = (kept.len(), held_out.len());
        return Err(SplitError::TooFew { rows, what: "rows", train, validation, test: 0 });
    }
    shuffle(&mut kept, seed, 1);
    shuffle(&mut held_out, seed, 2);
    Ok((kept, held_out))
}
