//! Splits: partitions that the seed decides, with groups kept together.

use std::collections::HashSet;

use manifusion::points::{Split, SplitSettings};

/// `count` distinct points on a line, two coordinates each.
fn points(count: usize) -> Vec<f64> {
    (0..count).flat_map(|i| [i as f64, 1.0]).collect()
}

fn settings(seed: u64, dedup: bool) -> SplitSettings {
    SplitSettings { seed, dedup, ..SplitSettings::default() }
}

#[test]
fn a_split_is_a_partition_that_the_seed_decides() {
    let points = points(1000);
    let split = Split::new(&points, 2, None, settings(3, false)).unwrap();
    assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (800, 100, 100));
    let all: HashSet<usize> =
        split.train.iter().chain(&split.validation).chain(&split.test).copied().collect();
    assert_eq!(all, (0..1000).collect());
    assert_eq!(split.test_in_train, 0);
    let again = Split::new(&points, 2, None, settings(3, false)).unwrap();
    assert_eq!((&again, again.hash()), (&split, split.hash()));
    let other = Split::new(&points, 2, None, settings(4, false)).unwrap();
    assert_ne!(other.test, split.test);
    assert_ne!(other.hash(), split.hash());
    // The shuffle is one: neighbouring rows do not stay together. Mean 499.5, standard error 28.
    let mean = split.test.iter().sum::<usize>() as f64 / 100.0;
    assert!((mean - 499.5).abs() < 4.0 * 28.0, "{mean}");
}

/// A changed shuffle, stream or hash would break stored runs: this is what version 1 gives.
#[test]
fn splits_are_the_same_on_every_machine_and_day() {
    let split = Split::new(&points(10), 2, None, settings(0, false)).unwrap();
    let indices = (split.train.clone(), split.validation.clone(), split.test.clone());
    assert_eq!(indices, (vec![2, 9, 7, 4, 8, 1, 5, 0], vec![3], vec![6]));
    // Recomputed with Python's hashlib from the bytes that `Split::hash` documents.
    assert_eq!(split.hash(), "0d6a117e430be948e8464f0d14f677f6019fd8a7310ebd2c5513baafea8aaeb4");
}

#[test]
fn every_row_is_equally_likely_to_be_tested() {
    let points = points(20);
    let mut counts = [0u32; 20];
    for seed in 0..2000 {
        for row in Split::new(&points, 2, None, settings(seed, false)).unwrap().test {
            counts[row] += 1;
        }
    }
    // Binomial: 2000 draws with probability 0.1, standard deviation 13.4.
    for (row, count) in counts.iter().enumerate() {
        assert!((f64::from(*count) - 200.0).abs() < 4.5 * 13.4, "row {row}: {count}");
    }
}

#[test]
fn repeated_points_are_reported_or_dropped() {
    // Each of 50 points ten times.
    let points: Vec<f64> = (0..500).flat_map(|i| [f64::from(i % 50), 1.0]).collect();
    let split = Split::new(&points, 2, None, settings(0, false)).unwrap();
    let location = |row: &usize| row % 50;
    let learned: HashSet<usize> = split.train.iter().map(location).collect();
    let leaked = split.test.iter().filter(|row| learned.contains(&location(row))).count();
    assert_eq!(split.test_in_train, leaked);
    assert!(split.test_in_train_share() > 0.9);
    let clean = Split::new(&points, 2, None, settings(0, true)).unwrap();
    assert_eq!((clean.train.len(), clean.validation.len(), clean.test.len()), (40, 5, 5));
    assert_eq!(clean.test_in_train, 0);
    assert!(clean.train.iter().chain(&clean.test).all(|&row| row < 50), "the first of equal rows");
}

#[test]
fn groups_stay_together() {
    let points = points(1000);
    let names: Vec<String> = (0..1000).map(|i| format!("g{}", i / 7)).collect();
    for seed in 0..20 {
        let split = Split::new(&points, 2, Some(&names), settings(seed, false)).unwrap();
        let groups =
            |rows: &[usize]| -> HashSet<usize> { rows.iter().map(|row| row / 7).collect() };
        let (train, validation, test) =
            (groups(&split.train), groups(&split.validation), groups(&split.test));
        assert!(train.is_disjoint(&test) && train.is_disjoint(&validation));
        assert!(validation.is_disjoint(&test));
        for (part, target) in [(&split.train, 800), (&split.validation, 100), (&split.test, 100)] {
            assert!(part.len().abs_diff(target) <= 7, "{} of {target}", part.len());
        }
        assert_eq!(split.train.len() + split.validation.len() + split.test.len(), 1000);
    }
}

/// Whoever takes the first rows of a part takes a random sample of it, not a few groups.
#[test]
fn parts_of_groups_are_in_random_order() {
    let points = points(1000);
    let names: Vec<String> = (0..1000).map(|i| format!("g{}", i / 50)).collect();
    let split = Split::new(&points, 2, Some(&names), settings(2, false)).unwrap();
    for part in [&split.train, &split.validation, &split.test] {
        let groups: HashSet<usize> = part.iter().map(|row| row / 50).collect();
        let neighbours = part.windows(2).filter(|pair| pair[0] / 50 == pair[1] / 50).count();
        // Two groups of fifty in random order: 49 pairs of neighbours agree, give or take 5.
        let expected = part.len() as f64 / groups.len() as f64;
        assert!((neighbours as f64) < 1.5 * expected + 20.0, "{neighbours} of {}", part.len());
        let first: HashSet<usize> = part.iter().take(30).map(|row| row / 50).collect();
        assert!(first.len() >= groups.len().min(2), "the first rows are of {} groups", first.len());
    }
}

#[test]
fn few_or_unequal_groups_still_fill_every_part() {
    let points = points(100);
    for sizes in [vec![1, 98, 1], vec![98, 1, 1], vec![1, 1, 98], vec![40, 30, 30]] {
        let names: Vec<String> = sizes
            .iter()
            .enumerate()
            .flat_map(|(group, &size)| std::iter::repeat_n(group.to_string(), size))
            .collect();
        for seed in 0..10 {
            let split = Split::new(&points, 2, Some(&names), settings(seed, false)).unwrap();
            assert!(
                !split.train.is_empty() && !split.validation.is_empty() && !split.test.is_empty()
            );
        }
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let error = |rows: usize, groups: Option<&[&str]>, fractions: [f64; 3], dedup: bool| {
        let groups: Option<Vec<String>> =
            groups.map(|names| names.iter().map(|n| (*n).to_owned()).collect());
        let points: Vec<f64> = if dedup { vec![1.0; 2 * rows] } else { points(rows) };
        let settings = SplitSettings { fractions, seed: 0, dedup };
        Split::new(&points, 2, groups.as_deref(), settings).unwrap_err().to_string()
    };
    let usual = [0.8, 0.1, 0.1];
    for (found, sentence) in [
        (
            error(3, None, usual, false),
            "3 rows are too few: the parts would have 3, 0 and 0 rows, and each needs at least one",
        ),
        (
            error(30, None, usual, true),
            "1 distinct rows are too few: the parts would have 1, 0 and 0 rows, and each needs at least one",
        ),
        (
            error(30, None, [0.5, 0.1, 0.1], false),
            "the fractions 0.5, 0.1 and 0.1 must be positive and add up to 1",
        ),
        (
            error(30, None, [1.0, 0.0, 0.0], false),
            "the fractions 1, 0 and 0 must be positive and add up to 1",
        ),
        (
            error(30, None, [f64::NAN, 0.5, 0.5], false),
            "the fractions NaN, 0.5 and 0.5 must be positive and add up to 1",
        ),
        (
            error(3, Some(&["a", "a", "a"]), usual, false),
            "there are 1 groups, and whole groups in three parts need at least 3",
        ),
        (error(3, Some(&["a", "b"]), usual, false), "there are 2 group names for 3 rows"),
    ] {
        assert_eq!(found, sentence);
    }
    assert_eq!(
        Split::new(&[1.0; 5], 2, None, settings(0, false)).unwrap_err().to_string(),
        "5 coordinates are not rows of 2"
    );
}

#[test]
fn a_list_of_rows_is_a_split() {
    use manifusion::Points;
    use manifusion::points::SplitPart::{Test, Train, Validation};

    // Row 3 repeats row 0; row 5 is in no part.
    let places = [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [3.0, 0.0], [4.0, 0.0]];
    let points = Points::new("euclidean:2", places.concat()).unwrap();
    let list = [(0, Train), (4, Validation), (1, Train), (3, Test), (2, Train)];
    let split = Split::of_list(&points, &list, 7).unwrap();
    let mut train = split.train.clone();
    train.sort_unstable();
    assert_eq!((train, &split.validation, &split.test), (vec![0, 1, 2], &vec![4], &vec![3]));
    assert_eq!((split.rows, split.test_in_train), (6, 1));
    assert_eq!(split.settings.fractions.map(|share| (5.0 * share).round() as usize), [3, 1, 1]);
    // The order of the list says nothing.
    let mut turned = list;
    turned.reverse();
    assert_eq!(Split::of_list(&points, &turned, 7).unwrap(), split);
    let error = |list: &[_]| Split::of_list(&points, list, 0).unwrap_err().to_string();
    assert_eq!(
        error(&[(0, Train), (6, Test)]),
        "row 6 is not there: there are 6 rows, counted from 0"
    );
    assert_eq!(error(&[(2, Train), (2, Test)]), "row 2 is listed twice: in train and in test");
    assert_eq!(
        error(&[(2, Train), (3, Test)]),
        "there are 1 rows for training, 0 for validation and 1 for test, and each part needs at \
         least one"
    );
}

#[test]
fn a_split_survives_a_file() {
    let split = Split::new(&points(50), 2, None, settings(9, true)).unwrap();
    let text = serde_json::to_string(&split).unwrap();
    let read: Split = serde_json::from_str(&text).unwrap();
    assert_eq!((&read, read.hash()), (&split, split.hash()));
}
