//! The weights of a stack.

use manifusion::internals::stack_weights as weights;

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
