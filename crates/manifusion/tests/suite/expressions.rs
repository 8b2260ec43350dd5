//! The expression language of level sets.

use manifusion::error::SpecError;
use manifusion::manifold::{Constraints, Expressions};

fn value(text: &str, x: &[f64]) -> f64 {
    let mut c = vec![0.0; text.split(';').count()];
    Expressions::parse(text).unwrap().eval(x, &mut c);
    c[0]
}

#[test]
fn arithmetic_follows_the_usual_rules() {
    let x = [0.7, -1.3, 2.1];
    let [a, b, c] = x;
    let cases: [(&str, f64); 9] = [
        ("x^2+y^2/4+z^2-1", a * a + b * b / 4.0 + c * c - 1.0),
        ("-x^2 - -y", -(a * a) + b),
        ("x*y/z", a * b / c),
        ("2^3^2*x + 0*y", 512.0 * a),
        ("x1 + 2*x2 + 3*x3", a + 2.0 * b + 3.0 * c),
        ("sin(x)*cos(y)+exp(z)", a.sin() * b.cos() + c.exp()),
        ("(x+y)^-2", (a + b).powi(-2)),
        ("x^y + z^0.5", a.powf(b) + c.sqrt()),
        ("1e-3*x + 2.5E+1*y + pi", 1e-3 * a + 25.0 * b + std::f64::consts::PI),
    ];
    for (text, expected) in cases {
        assert!((value(text, &x) - expected).abs() < 1e-12 * expected.abs().max(1.0), "{text}");
    }
}

#[test]
fn mistakes_are_located() {
    for (text, position, problem) in [
        ("x+*y", 3, "unexpected '*'"),
        ("x+y)", 4, "unexpected ')'"),
        ("(x+y", 5, "expected ')'"),
        ("x+foo*y", 3, "unknown name 'foo'"),
        ("x+y;x-", 7, "ends too early"),
        ("x+1.2.3*y", 3, "not a number"),
        ("sin x + y", 5, "expected '('"),
        ("", 1, "ends too early"),
        ("x^2-1", 1, "at least two variables"),
        ("x+é", 3, "unexpected 'é'"),
    ] {
        let Err(SpecError::Expression { position: at, problem: said, .. }) =
            Expressions::parse(text)
        else {
            panic!("{text} was accepted");
        };
        assert!(said.contains(problem), "{text}: {said}");
        assert_eq!(at, position, "{text}: {said}");
    }
    let deep = "(".repeat(100_000);
    assert!(Expressions::parse(&deep).is_err());
    assert!(Expressions::parse(&format!("x+y{}", "^2".repeat(500))).is_err());
}
