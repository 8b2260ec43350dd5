//! Points with what belongs to them.

use manifusion::error::ShapeError;
use manifusion::points::{Context, Points, PointsError};

fn points() -> Points {
    Points::new("sphere:1", [1.0, 0.0, 0.0, 1.0, -1.0, 0.0]).unwrap()
}

#[test]
fn what_belongs_to_a_point_goes_with_it() {
    let context = Context { names: vec!["depth".into()], values: vec![1.0, 2.0, 3.0] };
    let points = points()
        .with_weights(vec![1.0, 0.0, 2.0])
        .and_then(|p| p.with_groups(vec!["a".into(), "b".into(), "a".into()]))
        .and_then(|p| p.with_context(context))
        .unwrap();
    let some = points.select(&[2, 0]).unwrap();
    assert_eq!(some.coordinates(), [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(some.weights(), Some(&[2.0, 1.0][..]));
    assert_eq!(some.groups().unwrap(), ["a", "a"]);
    assert_eq!(some.context().unwrap().values, [3.0, 1.0]);
    assert_eq!(points.select(&[3]).unwrap_err(), ShapeError::Len { found: 4, expected: 3 });
    assert_eq!(points.select(&[]).unwrap_err(), ShapeError::Empty);
}

#[test]
fn what_does_not_fit_is_refused_with_its_numbers() {
    let error = Points::new("sphere:1", [1.0, 0.1]).unwrap_err().to_string();
    assert!(error.starts_with("row 0: the point is off sphere:1"), "{error}");
    let sentence = |e: Result<Points, PointsError>| e.unwrap_err().to_string();
    assert_eq!(sentence(points().with_weights(vec![1.0])), "there are 1 weights for 3 points");
    assert_eq!(
        sentence(points().with_weights(vec![1.0, f64::NAN, 1.0])),
        "weight 1 is NaN; weights are finite, not negative and not all zero"
    );
    assert!(points().with_weights(vec![0.0; 3]).is_err());
    let context = Context { names: vec!["a".into(), "b".into()], values: vec![1.0; 3] };
    assert!(points().with_context(context).is_err());
    assert!(matches!(Points::new("cube:2", [0.0]), Err(PointsError::Spec(_))));
}
