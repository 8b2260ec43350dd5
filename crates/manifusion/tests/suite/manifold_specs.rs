//! The string forms of manifolds.

use manifusion::manifold::parse;

#[test]
fn every_form_parses_and_prints_itself() {
    for (spec, dim, ambient) in [
        ("sphere:2", 2, 3),
        ("torus:7", 7, 14),
        ("hyperbolic:2", 2, 3),
        ("hyperbolic:2,K=-0.5", 2, 3),
        ("hyperbolic:3,pi=closest", 3, 4),
        ("hyperbolic:3,metric=lorentz", 3, 4),
        ("hyperbolic:2,K=-0.5,metric=lorentz", 2, 3),
        ("so:3", 3, 9),
        ("o:3", 3, 9),
        ("stiefel:4,2", 5, 8),
        ("euclidean:4", 4, 4),
        ("level:x^2+y^2/4+z^2-1", 2, 3),
        ("level:x*x+y*y-1;z-x*y", 1, 3),
        ("sphere:2*torus:3", 5, 9),
        ("sphere:1*level:x*x+y*y*z*z+z^2-1*so:3", 6, 14),
    ] {
        let manifold = parse(spec).unwrap();
        assert_eq!(manifold.name(), spec);
        assert_eq!((manifold.dim(), manifold.ambient_dim()), (dim, ambient), "{spec}");
    }
    assert_eq!(parse(" sphere : 2 * torus:1 ").unwrap().name(), "sphere:2*torus:1");
}

#[test]
fn mistakes_say_what_is_allowed() {
    for (spec, message) in [
        ("", "unknown manifold ''; allowed: sphere:D"),
        ("ball:3", "unknown manifold 'ball'; allowed: sphere:D"),
        ("sphere", "'sphere': nothing stands after the name; expected sphere:D"),
        ("sphere:two", "'sphere:two': 'two' is not a whole number"),
        ("sphere:0", "dimension 0 of sphere is out of range; allowed: 1 to 4096"),
        ("sphere:99999", "dimension 99999 of sphere is out of range"),
        ("sphere:-1", "'-1' is not a whole number"),
        ("hyperbolic:2,K=1", "curvature K = 1 is not allowed"),
        ("hyperbolic:2,K=nan", "curvature K = NaN is not allowed"),
        ("hyperbolic:2,pi=closest,metric=lorentz", "pi=closest is the closest point of"),
        ("hyperbolic:2,metric=flat", "'metric=flat' is not understood"),
        ("hyperbolic:2,R=1", "'R=1' is not understood"),
        ("hyperbolic:2,K=-1,K=-2", "K is given twice"),
        ("hyperbolic:2,K=-1e-320", "curvature K = -0"),
        ("level:x^2+y^2", "no regular point found"),
        ("level:(x^2+y^2-1)^2", "no regular point found"),
        ("stiefel:4", "two numbers are needed"),
        ("stiefel:2,4", "dimension 4 of stiefel (k) is out of range; allowed: 1 to 2"),
        ("stiefel:3,3", "K = N is the orthogonal group, o:N"),
        ("so:1", "dimension 1 of so is out of range; allowed: 2 to 64"),
        ("sphere:2*", "unknown manifold ''"),
        ("level:x^2+", "expression 'x^2+', position 5: the expression ends too early"),
        ("level:x^2+y^2+1", "no regular point found"),
    ] {
        let error = parse(spec).unwrap_err().to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
}
