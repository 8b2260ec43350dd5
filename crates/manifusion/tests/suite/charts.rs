//! Charts, and models of the coordinates that they give.

use std::sync::Arc;

use manifusion::density::lift_rows;
use manifusion::internals::{distance, dot, norm, scale};
use manifusion::manifold::{Chart, NormalCoordinates, Stereographic, parse};
use manifusion::methods::rdm::{
    Loss, ModelChoices, NetChoices, Noise, Preset, RdmSettings, TrainChoices,
};
use manifusion::methods::{Geometry, Rdm, Stereographic as StereographicModel, method};
use manifusion::rng::Streams;
use manifusion::{Points, fit};

/// log of the volume that a unit cube of coordinates at z has on the manifold, by differences and
/// the products of tangent vectors.
fn log_volume(chart: &dyn Chart, z: &[f64], product: fn(&[f64], &[f64]) -> f64) -> f64 {
    const H: f64 = 1e-5;
    let (d, m) = (z.len(), chart.manifold().ambient_dim());
    let column = |j: usize| {
        let at = |by: f64| {
            let (mut moved, mut x) = (z.to_vec(), vec![0.0; m]);
            moved[j] += by;
            chart.lift(&moved, &mut x);
            x
        };
        let (above, below) = (at(H), at(-H));
        above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * H)).collect::<Vec<f64>>()
    };
    let columns: Vec<Vec<f64>> = (0..d).map(column).collect();
    let g = |i: usize, j: usize| product(&columns[i], &columns[j]);
    let determinant = match d {
        2 => g(0, 0) * g(1, 1) - g(0, 1) * g(1, 0),
        3 => {
            g(0, 0) * (g(1, 1) * g(2, 2) - g(1, 2) * g(2, 1))
                - g(0, 1) * (g(1, 0) * g(2, 2) - g(1, 2) * g(2, 0))
                + g(0, 2) * (g(1, 0) * g(2, 1) - g(1, 1) * g(2, 0))
        }
        _ => unreachable!(),
    };
    0.5 * determinant.ln()
}

fn lorentz(u: &[f64], v: &[f64]) -> f64 {
    dot(&u[1..], &v[1..]) - u[0] * v[0]
}

#[test]
fn charts_are_undone_and_stretch_as_they_say() {
    let streams = Streams::new(1, "chart");
    let check = |chart: &dyn Chart, x: &[f64], product: fn(&[f64], &[f64]) -> f64| {
        let (mut z, mut back) = (vec![0.0; chart.manifold().dim()], vec![0.0; x.len()]);
        chart.project(x, &mut z).unwrap();
        chart.lift(&z, &mut back);
        assert!(distance(x, &back) < 1e-12 * norm(x), "{chart:?}: {x:?} {back:?}");
        let volume = log_volume(chart, &z, product);
        assert!((volume + chart.log_stretch(&z)).abs() < 1e-6, "{chart:?} at {z:?}: {volume}");
    };
    let projection = Stereographic::new(vec![0.6, 0.0, 0.8]).unwrap();
    for row in 0..20 {
        let mut x = vec![0.0; 3];
        streams.fill_normal(row, 0, 0, &mut x);
        let length = norm(&x);
        scale(1.0 / length, &mut x);
        check(&projection, &x, dot);
    }
    for (spec, product) in [
        ("hyperbolic:2,metric=lorentz", lorentz as fn(&[f64], &[f64]) -> f64),
        ("hyperbolic:3,K=-0.5,metric=lorentz", lorentz),
        ("hyperbolic:2", dot),
        ("hyperbolic:3,K=-2", dot),
    ] {
        let manifold = parse(spec).unwrap();
        let chart = NormalCoordinates::new(&manifold).unwrap();
        for row in 0..20 {
            let (mut z, mut x) = (vec![0.0; manifold.dim()], vec![0.0; manifold.ambient_dim()]);
            streams.fill_normal(row, 1, 0, &mut z);
            chart.lift(&z, &mut x);
            manifold.check_point(&x).unwrap();
            check(&chart, &x, product);
        }
        let origin = vec![0.0; manifold.dim()];
        assert!(chart.log_stretch(&origin).abs() < 1e-12, "{spec}");
    }
    // The pole has no projection; what is near it is far away. No other space has such coordinates.
    let mut z = vec![0.0; 2];
    let refused = projection.project(&[0.6, 0.0, 0.8], &mut z).unwrap_err();
    assert!(refused.to_string().contains("stereographic"), "{refused}");
    projection.project(&[0.6, 1e-9, 0.8], &mut z).unwrap();
    assert!(norm(&z) > 1e8, "{z:?}");
    assert!(NormalCoordinates::new(&parse("sphere:2").unwrap()).is_none());
}

fn small() -> Rdm {
    Rdm {
        net: NetChoices { width: Some(16), depth: Some(2), ..NetChoices::default() },
        train: TrainChoices { batch: Some(64), ..TrainChoices::default() },
        ..Rdm::default()
    }
    .steps(60)
}

/// Normal coordinates of points, as points of ℝ².
fn coordinates(points: &Points) -> (NormalCoordinates, Points) {
    let chart = NormalCoordinates::new(points.manifold()).unwrap();
    let mut z = vec![0.0; 2 * points.len()];
    for (x, z) in points.rows().rows().zip(z.chunks_exact_mut(2)) {
        chart.project(x, z).unwrap();
    }
    (chart, Points::new("euclidean:2", z).unwrap())
}

/// A model of hyperbolic space is the model of the coordinates in ℝ², which knows nothing of
/// hyperbolic space: the same weights, log-densities that differ by the stretch, the same samples.
#[test]
fn a_model_in_normal_coordinates_is_the_model_of_the_plane() {
    let points = Points::synthetic("hyperbolic-mixture", 400, 3).unwrap();
    let (chart, flat) = coordinates(&points);
    let (model, plane) = (fit(&points, small()).unwrap(), fit(&flat, small()).unwrap());
    assert!(model.files().unwrap() == plane.files().unwrap());
    let (log_p, of_z) =
        (model.log_density(points.rows()).unwrap(), plane.log_density(flat.rows()).unwrap());
    for ((log_p, of_z), z) in log_p.iter().zip(&of_z).zip(flat.rows().rows()) {
        assert!((log_p - of_z - chart.log_stretch(z)).abs() < 1e-12);
    }
    let (x, z) = (model.sample(50, 1).unwrap(), plane.sample(50, 1).unwrap());
    let mut lifted = vec![0.0; 3];
    for (x, z) in x.chunks_exact(3).zip(z.chunks_exact(2)) {
        chart.lift(z, &mut lifted);
        assert_eq!(x, lifted);
    }
    // Stored and read again.
    let geometry = Geometry::of(points.manifold()).unwrap();
    let rdm = method("rdm").unwrap();
    let settings = model.settings().unwrap();
    let again = rdm.load(&geometry, &settings, &model.files().unwrap()).unwrap();
    assert_eq!(again.log_density(points.rows()).unwrap(), log_p);
}

/// Which noise a run has, and that folders of before it was a setting mean Brownian motion.
#[test]
fn noise_is_chosen_by_the_manifold() {
    let noise = |points: &Points, rdm: Rdm| {
        let settings = fit(points, rdm.steps(2)).unwrap().settings().unwrap();
        settings["model"]["noise"].as_str().unwrap().to_owned()
    };
    let hyperbolic = Points::synthetic("hyperbolic-mixture", 100, 3).unwrap();
    let euclidean = Points::on(parse("hyperbolic:2").unwrap(), hyperbolic.coordinates()).unwrap();
    let sphere = Points::synthetic("sphere-mixture", 100, 3).unwrap();
    assert_eq!(noise(&hyperbolic, small()), "normal-coordinates");
    assert_eq!(noise(&euclidean, small()), "normal-coordinates");
    assert_eq!(noise(&sphere, small()), "brownian");
    let mut implicit = small();
    implicit.train.loss = Some(Loss::Implicit);
    assert_eq!(noise(&hyperbolic, implicit), "brownian");
    let paper = Rdm { preset: Some(Preset::Paper), ..small() };
    assert_eq!(noise(&hyperbolic, paper), "brownian");
    let chosen = |noise| {
        let model = ModelChoices { noise: Some(noise), ..ModelChoices::default() };
        Rdm { model, ..small() }
    };
    assert_eq!(noise(&hyperbolic, chosen(Noise::Brownian)), "brownian");
    assert_eq!(
        fit(&sphere, chosen(Noise::NormalCoordinates)).unwrap_err().to_string(),
        "model.noise = normal-coordinates is not allowed; brownian on manifolds other than \
         hyperbolic space"
    );
    let model = fit(&hyperbolic, chosen(Noise::Brownian).steps(2)).unwrap();
    let mut before = model.settings().unwrap();
    before["model"].as_object_mut().unwrap().remove("noise").unwrap();
    let before: Rdm = serde_json::from_value(before).unwrap();
    assert_eq!(RdmSettings::try_from(before).unwrap().model.noise, Noise::Brownian);
}

/// A stereographic model is one of ℝ^d too: it has bounds, and they lie below the exact value of an
/// untrained network by what the two models differ in, which is nothing at the prior.
#[test]
fn bounds_go_through_a_chart() {
    let points = Points::synthetic("sphere-mixture", 200, 3).unwrap();
    let mut request = StereographicModel::default();
    (request.net.width, request.net.depth) = (Some(8), Some(1));
    (request.train.steps, request.train.rate) = (Some(1), Some(1e-12));
    let model = fit(&points, request).unwrap();
    let x = points.first_rows(6);
    let options = manifusion::likelihood::BoundOptions { num_paths: 20, ..Default::default() };
    let bounds = model.bounds(x, &options).unwrap().unwrap();
    let exact = model.log_density(x).unwrap();
    for (bound, exact) in bounds.elbo.iter().zip(&exact) {
        assert!((bound - exact).abs() < 0.02, "{bound} {exact}");
    }
    let manifold = Arc::clone(model.manifold());
    assert_eq!(manifold.name(), "sphere:2");
}

/// Coordinates whose points are beyond double precision are refused with their row.
#[test]
fn points_beyond_double_precision_are_refused() {
    let manifold = parse("hyperbolic:2,metric=lorentz").unwrap();
    let chart = NormalCoordinates::new(&manifold).unwrap();
    assert_eq!(lift_rows(&chart, &[0.5, 0.0, 3.0, -4.0]).unwrap().len(), 6);
    let refused = lift_rows(&chart, &[0.5, 0.0, 800.0, 0.0]).unwrap_err().to_string();
    assert!(refused.starts_with("row 1"), "{refused}");
}
