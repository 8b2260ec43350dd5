//! How many networks a stack has, and their weights.

use manifusion::internals::{MemberTraining, stack_weights as weights, worthwhile_members};
use manifusion::optim::Optimiser;

/// Two members of which one is right at a third of the points and the other at the rest.
#[test]
fn weights_are_shares_of_the_points() {
    let n = 3000;
    let right = |third: bool| {
        let log_p = move |i: usize| if i.is_multiple_of(3) == third { 0.0 } else { -50.0 };
        (0..n).map(log_p).collect::<Vec<f64>>()
    };
    let found = weights(&[right(true), right(false)]);
    let expected = [1001.0 / 3002.0, 2001.0 / 3002.0];
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-8, "{found} {expected}");
    }
    // A member that is nowhere better keeps its pseudo-observation alone.
    let found = weights(&[vec![0.0; n], vec![-9.0; n]]);
    assert!(found[1] < 1.5 / n as f64 && found[1] > 0.0, "{found:?}");
}

/// Another network is trained only when each has 200 passes over the points, within 6000 (Adam
/// 12 000, with grids 20 000) and 20 000 steps.
#[test]
fn another_network_only_when_each_has_steps_enough() {
    let plain =
        MemberTraining { optimiser: Optimiser::Soap, has_grids: false, points: 4000, batch: 512 };
    let grids = MemberTraining { has_grids: true, ..plain };
    let adam = MemberTraining { optimiser: Optimiser::Adam, ..plain };
    // 200 passes are 15 625 steps.
    let many = MemberTraining { points: 40_000, ..plain };
    let most = MemberTraining { points: 10_000_000, ..plain };
    let cases = [(plain, 6000), (grids, 20_000), (adam, 12_000), (many, 15_625), (most, 20_000)];
    for (network, each) in cases {
        for members in 1..=8 {
            let half = each / 2;
            assert_eq!(worthwhile_members(members * each, network), members as usize);
            assert_eq!(worthwhile_members(members * each + half - 1, network), members as usize);
            let next = (members as usize + 1).min(8);
            assert_eq!(worthwhile_members(members * each + half + 1, network), next);
        }
        assert_eq!(worthwhile_members(1, network), 1);
    }
}
