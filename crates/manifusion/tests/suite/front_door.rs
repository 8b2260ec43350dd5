//! Points and a method in, a density out: the protocol that every method of the registry keeps.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::mean_se;
use manifusion::checkpoint::Checkpoint;
use manifusion::evaluation::{Baselines, Evaluation, EvaluationOptions, METRICS, evaluate};
use manifusion::fit::{Fit, Request};
use manifusion::likelihood::{BoundOptions, Bounds};
use manifusion::manifold::parse;
use manifusion::methods::rdm::{NetChoices, TrainChoices};
use manifusion::methods::{
    FileMap, Fitted, Geometry, Kernel, METHODS, MODEL_FILE, Method, Parametric, Rdm, Stack, Task,
    method,
};
use manifusion::points::Context;
use manifusion::rows::Rows;
use manifusion::watch::Watch;
use manifusion::{Points, fit};
use serde_json::{Value, json};

/// Manifolds of every kind.
const SPECS: [&str; 8] = [
    "sphere:2",
    "torus:2",
    "so:3",
    "hyperbolic:2,metric=lorentz",
    "hyperbolic:2",
    "euclidean:2",
    "sphere:1*torus:1",
    "level:x^2+y^2/4+z^2-1",
];

/// A network that is trained in a moment.
fn small() -> Rdm {
    Rdm {
        net: NetChoices { width: Some(16), depth: Some(2), ..NetChoices::default() },
        train: TrainChoices {
            steps: Some(30),
            batch: Some(32),
            validations: Some(2),
            validation_points: Some(8),
            ..TrainChoices::default()
        },
        ..Rdm::default()
    }
}

/// Each method with settings that make it quick, of those that it knows.
fn quick(name: &str) -> Request {
    let info = method(name).unwrap().info();
    let mut choices = json!({});
    for (key, value) in [
        ("net.width", json!(16)),
        ("net.depth", json!(2)),
        ("train.steps", json!(30)),
        ("train.batch", json!(32)),
        ("train.validations", json!(2)),
        ("train.validation_points", json!(8)),
        ("model.solver_steps", json!(4)),
        // Fewer points than networks are weighed by: so many are asked for.
        ("members", json!(2)),
        ("components", json!(9)),
    ] {
        // A mixture by EM finds the number of its components.
        if !info.knows(key) || key == "components" && !info.knows("train.steps") {
            continue;
        }
        match key.split_once('.') {
            Some((section, key)) => choices[section][key] = value,
            None => choices[key] = value,
        }
    }
    Request::named(name, choices)
}

fn points_on(spec: &str, n: usize) -> Points {
    with_geometry(spec, n).0
}

/// Points with the prior of their manifold.
fn with_geometry(spec: &str, n: usize) -> (Points, Geometry) {
    let set = match spec {
        "sphere:2" => "sphere-mixture",
        "torus:2" => "torus-mixture",
        "so:3" => "so3-modes",
        "hyperbolic:2,metric=lorentz" => "hyperbolic-wrapped",
        "euclidean:2" => "plane-moons",
        _ => {
            let manifold = parse(spec).unwrap();
            let geometry = Geometry::of(&manifold).unwrap();
            let mut x = vec![0.0; n * manifold.ambient_dim()];
            let streams = manifusion::rng::Streams::new(3, "points");
            for (i, x) in x.chunks_exact_mut(manifold.ambient_dim()).enumerate() {
                geometry.prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
            }
            return (Points::on(manifold, x).unwrap(), geometry);
        }
    };
    let points = Points::synthetic(set, n, 1).unwrap();
    let geometry = Geometry::of(points.manifold()).unwrap();
    (points, geometry)
}

fn load_again(model: &dyn Fitted) -> Arc<dyn Fitted> {
    let geometry =
        Geometry { manifold: Arc::clone(model.manifold()), prior: Arc::clone(model.prior()) };
    let files: FileMap = model.files().unwrap();
    let method = method(model.info().name).unwrap();
    method.load(&geometry, &model.settings().unwrap(), &files).unwrap()
}

/// fit → score → sample → save → load → evaluate, for every method on every manifold that it
/// claims.
#[test]
fn every_method_keeps_the_protocol() {
    for method in METHODS {
        let name = method.info().name;
        let mut supported = 0;
        for spec in SPECS {
            let (points, geometry) = with_geometry(spec, 60);
            let fit = || Fit::new(quick(name)).seed(3).prior(Arc::clone(&geometry.prior));
            let fitted = fit().run(&points);
            if let Err(refused) = method.supports(&geometry) {
                assert_eq!(fitted.unwrap_err().to_string(), refused.to_string());
                assert!(refused.to_string().contains(method.info().manifolds), "{refused}");
                continue;
            }
            supported += 1;
            let what = format!("{name} on {spec}");
            let model = fitted.unwrap_or_else(|e| panic!("{what}: {e}")).model;
            assert_eq!(model.info(), method.info());
            let log_p = model.log_density(points.rows()).unwrap();
            assert!(log_p.iter().all(|v| v.is_finite()), "{what}");
            let drawn = model.sample(5, 9).unwrap();
            for x in drawn.chunks_exact(points.manifold().ambient_dim()) {
                points.manifold().check_point(x).unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            assert_eq!(drawn, model.sample(5, 9).unwrap(), "{what}: the seed decides");
            // Saved and loaded: the same bits.
            let loaded = load_again(model.as_ref());
            assert_eq!(loaded.log_density(points.rows()).unwrap(), log_p, "{what}");
            assert_eq!(loaded.sample(5, 9).unwrap(), drawn, "{what}");
            assert_eq!(loaded.settings().unwrap(), model.settings().unwrap(), "{what}");
            assert!(model.parameters().is_some_and(|count| count > 0), "{what}");
            assert_eq!(loaded.parameters(), model.parameters(), "{what}");
            // Fitted again: the same bits.
            let again = fit().run(&points).unwrap().model;
            assert_eq!(again.log_density(points.rows()).unwrap(), log_p, "{what}");
            let options = EvaluationOptions {
                bound_points: 2,
                kelbo_paths: 4,
                mass_points: 200,
                ..Default::default()
            };
            let test = points.select(&[0, 1, 2, 3]).unwrap();
            let found = evaluate(
                model.as_ref(),
                &test,
                Baselines::default(),
                &options,
                0,
                &Watch::default(),
            )
            .unwrap();
            assert_eq!((found.n, found.method.as_str()), (4, name));
            let nll = -log_p[..4].iter().sum::<f64>() / 4.0;
            assert!((found.nll - nll).abs() < 1e-9, "{what}: {} {nll}", found.nll);
            let (mass, se) = (found.mass.unwrap(), found.mass_se.unwrap());
            assert!((mass - 1.0).abs() < 0.05 + 4.0 * se, "{what}: mass {mass} ± {se}");
        }
        assert!(supported >= 1, "{name} knows {supported} of the manifolds");
    }
}

/// A run that is stopped in the middle and goes on in another process ends in the same bits, for
/// every method on every manifold that it claims.
#[test]
fn a_run_goes_on_from_its_checkpoint() {
    for spec in SPECS {
        let (points, geometry) = with_geometry(spec, 80);
        for method in METHODS {
            if method.supports(&geometry).is_ok() {
                goes_on_from_its_checkpoint(*method, &points, &geometry);
            }
        }
    }
}

fn goes_on_from_its_checkpoint(method: &dyn Method, points: &Points, geometry: &Geometry) {
    let request = quick(method.info().name);
    let task = || {
        let rows: Vec<usize> = (0..70).collect();
        let (train, validation) =
            (points.select(&rows).unwrap(), points.select(&[70, 71, 72]).unwrap());
        Task::new(method, &Value::Null, geometry.clone(), train, validation, 5, Watch::default())
            .unwrap()
    };
    let watch = Watch::default();
    let mut whole = method.start(&task(), request.choices()).unwrap();
    while !whole.is_done() {
        whole.advance(&watch).unwrap();
    }
    let mut first = method.start(&task(), request.choices()).unwrap();
    for _ in 0..17 {
        if !first.is_done() {
            first.advance(&watch).unwrap();
        }
    }
    let (settings, files) = (first.settings().unwrap(), first.files().unwrap());
    let checkpoint = first.checkpoint().unwrap();
    let mut second = method.open(&task(), &settings, &files).unwrap();
    if let Some(checkpoint) = checkpoint {
        second.restore(&checkpoint).unwrap();
    }
    while !second.is_done() {
        second.advance(&watch).unwrap();
    }
    let end = |run: &dyn manifusion::methods::Run| run.finish().unwrap().model.files().unwrap();
    let what = format!("{} on {}", method.info().name, points.manifold().name());
    assert!(end(whole.as_ref()) == end(second.as_ref()), "{what}");
}

/// Local or common weights of a kernel mixture: whichever is better for the validation points.
#[test]
fn kernel_weights_are_chosen_by_the_validation_points() {
    let mut chosen = BTreeSet::new();
    // Points of one smooth cluster, and of clusters of very different sizes.
    for (set, n) in [("hyperbolic-wrapped", 60), ("torus-mixture", 60), ("sphere-multiscale", 1500)]
    {
        let points = Points::synthetic(set, n, 1).unwrap();
        let validation = Points::synthetic(set, 300, 2).unwrap();
        let fitted = |local: Option<bool>| {
            let request = Kernel { local_weights: local };
            Fit::new(request).validation(validation.clone()).run(&points).unwrap().model
        };
        let nll = |model: &dyn Fitted| {
            mean_se(model.log_density(validation.rows()).unwrap().into_iter().map(|v| -v)).0
        };
        let (open, local, common) = (fitted(None), fitted(Some(true)), fitted(Some(false)));
        let best = nll(local.as_ref()).min(nll(common.as_ref()));
        assert!((nll(open.as_ref()) - best).abs() < 1e-12, "{set}");
        chosen.insert(open.settings().unwrap().to_string());
    }
    assert!(chosen.len() > 1, "only one of the two was ever chosen: {chosen:?}");
}

/// A stack is Parzen windows with what networks add: it never loses much to the kernel mixture,
/// whatever the number of points, and with too few to weigh networks by it is the windows alone.
#[test]
fn the_default_does_not_lose_to_the_kernel_mixture() {
    let network = Stack {
        net: NetChoices { width: Some(48), depth: Some(2), ..NetChoices::default() },
        ..Stack::default()
    };
    for set in ["sphere-mixture", "torus-mixture", "sphere-multiscale"] {
        let test = Points::synthetic(set, 600, 77).unwrap();
        for n in [25, 50, 500, 5000] {
            let points = Points::synthetic(set, n, 5).unwrap();
            let stack = fit(&points, network.clone().steps(150)).unwrap();
            let kernel = fit(&points, "kernel").unwrap();
            let (a, b) =
                (stack.log_density(test.rows()).unwrap(), kernel.log_density(test.rows()).unwrap());
            let (loss, se) = mean_se(a.iter().zip(&b).map(|(a, b)| b - a));
            assert!(loss < 0.02 + 3.0 * se, "{set}, {n} points: {loss} ± {se}");
            assert_eq!(stack.members().len(), if n <= 50 { 1 } else { 3 });
            if n <= 50 {
                let windows = fit(&points, "parzen").unwrap();
                assert!(a == windows.log_density(test.rows()).unwrap(), "{set}");
            }
        }
    }
}

/// How far points are smoothed and moved where neither is given: in full, unless repeated places
/// have much of the data or nothing was to be smoothed.
#[test]
fn points_are_moved_where_a_network_would_overfit() {
    let net = NetChoices { width: Some(16), depth: Some(1), ..NetChoices::default() };
    let smooth = Points::synthetic("sphere-mixture", 600, 5).unwrap();
    let chosen = |points: &Points, request: Request| {
        let settings = fit(points, request).unwrap().settings().unwrap();
        ["smoothing", "stretch"].map(|name| settings["train"][name].to_string())
    };
    let rdm = Rdm { net: net.clone(), ..Rdm::default() }.steps(2);
    assert_eq!(chosen(&smooth, rdm.clone().into()), ["1.0", "0.5"]);
    let stack = Stack { net: net.clone(), ..Stack::default() }.members(1).steps(2);
    assert_eq!(chosen(&smooth, stack.into()), ["1.0", "0.5"]);
    let mut unsmoothed = rdm.clone();
    unsmoothed.train.smoothing = Some(0.0);
    assert_eq!(chosen(&smooth, unsmoothed.into()), ["0.0", "0.0"]);
    // Sharp clusters and no repeats: the windows have nearly all of the weight.
    let sharp = Points::synthetic("sphere-multiscale", 2000, 5).unwrap();
    assert_eq!(chosen(&sharp, rdm.clone().into()), ["1.0", "0.5"]);
    let places: Vec<f64> = smooth.coordinates()[..360].repeat(4);
    let repeated = [places.as_slice(), smooth.coordinates()].concat();
    let repeated = Points::new("sphere:2", repeated).unwrap();
    assert_eq!(chosen(&repeated, rdm.into()), ["0.5", "0.0"]);
}

/// Every second network of a stack has its own smoothing, and only these.
#[test]
fn networks_of_a_stack_alternate_their_smoothing() {
    let points = Points::synthetic("sphere-mixture", 600, 5).unwrap();
    let networks = |ratio: Option<f64>| {
        let net = NetChoices { width: Some(16), depth: Some(1), ..NetChoices::default() };
        let stack = Stack { net, smoothing_ratio: ratio, ..Stack::default() }.members(3).steps(5);
        let files = fit(&points, stack).unwrap().files().unwrap();
        (0..3).map(|k| files[&format!("network-{k}.safetensors")].clone()).collect::<Vec<_>>()
    };
    let (open, half, same) = (networks(None), networks(Some(0.5)), networks(Some(1.0)));
    assert!(open == half);
    let equal: Vec<bool> = half.iter().zip(&same).map(|(a, b)| a == b).collect();
    assert_eq!(equal, [true, false, true]);
    // Folders of before it was a setting.
    let net = NetChoices { width: Some(16), depth: Some(1), ..NetChoices::default() };
    let stack = fit(&points, Stack { net, ..Stack::default() }.members(2).steps(5)).unwrap();
    let mut settings = stack.settings().unwrap();
    settings.as_object_mut().unwrap().remove("smoothing_ratio").unwrap();
    let geometry = Geometry::of(points.manifold()).unwrap();
    let method = manifusion::methods::method("stack").unwrap();
    let again = method.load(&geometry, &settings, &stack.files().unwrap()).unwrap();
    assert_eq!(again.settings().unwrap(), stack.settings().unwrap());
    let wrong = Stack { smoothing_ratio: Some(-1.0), ..Stack::default() };
    assert_eq!(
        fit(&points, wrong).unwrap_err().to_string(),
        "smoothing_ratio = -1 is not allowed; a number of at least 0"
    );
}

/// log p and the bounds of a stack are log Σ w_k e^{…} of its members', and a draw of one seed does
/// not repeat those of its members with another one.
#[test]
fn a_stack_is_the_weighted_sum_of_its_members() {
    let points = points_on("sphere:2", 100);
    let model = fit(&points, quick("stack")).unwrap();
    let x = points.first_rows(4);
    let options = BoundOptions { num_paths: 3, ..BoundOptions::default() };
    let (log_p, bounds) =
        (model.log_density(x).unwrap(), model.bounds(x, &options).unwrap().unwrap());
    let (mut p, mut elbo, mut kelbo) = ([0.0; 4], [0.0; 4], [0.0; 4]);
    for member in model.members() {
        let exact = member.model.log_density(x).unwrap();
        let own = member.model.bounds(x, &options).unwrap();
        for i in 0..4 {
            let of =
                |bound: fn(&Bounds) -> &Vec<f64>| own.as_ref().map_or(exact[i], |b| bound(b)[i]);
            p[i] += member.weight * exact[i].exp();
            elbo[i] += member.weight * of(|b| &b.elbo).exp();
            kelbo[i] += member.weight * of(|b| &b.kelbo).exp();
        }
    }
    for i in 0..4 {
        assert!((log_p[i] - f64::ln(p[i])).abs() < 1e-12);
        assert!((bounds.elbo[i] - f64::ln(elbo[i])).abs() < 1e-12);
        assert!((bounds.kelbo[i] - f64::ln(kelbo[i])).abs() < 1e-12);
    }
    let bits = |x: Vec<f64>| x.into_iter().map(f64::to_bits).collect::<BTreeSet<u64>>();
    let drawn = bits(model.sample(60, 0).unwrap());
    let own =
        |number: usize, seed: u64| bits(model.members()[number].model.sample(60, seed).unwrap());
    assert!(!drawn.is_disjoint(&own(0, 0)), "the first member has the seed of the draw");
    for (number, seed) in (1..3).flat_map(|number| (0..4).map(move |seed| (number, seed))) {
        assert!(drawn.is_disjoint(&own(number, seed)), "member {number} draws as of seed {seed}");
    }
}

/// Learned numbers, counted by hand.
#[test]
fn parameters_are_counted() {
    let points = points_on("sphere:2", 60);
    let count = |request: Request| {
        let model = fit(&points, request).unwrap();
        (model.parameters().unwrap(), model)
    };
    let mixture = Parametric { components: Some(3) };
    assert_eq!(count(mixture.vmf()).0, 3 * 3 + 2);
    assert_eq!(count(mixture.kent()).0, 3 * 5 + 2);
    // 54 of the points are learned from: 3 coordinates each, a weight for the prior, and a
    // bandwidth with its weight, here without weights of the centres' own.
    let (kernel, model) = count(Kernel { local_weights: Some(false) }.into());
    assert_eq!(kernel, 54 * 3 + 1 + 2 * model.mixture().unwrap().bandwidths().len());
    // A network is the arrays of its file.
    let (rdm, model) = count(small().into());
    let file = &model.files().unwrap()[MODEL_FILE];
    let net = Checkpoint::<f32>::from_bytes(file).unwrap().net;
    let layers: usize = net.layout().views().iter().map(|view| view.shape[0] * view.shape[1]).sum();
    assert_eq!(rdm, layers);
    let (stack, model) = count(quick("stack"));
    let members = model.members().iter().map(|member| member.model.parameters().unwrap());
    assert_eq!(stack, members.sum::<usize>());
}

/// A component starts at a point of its own.
#[test]
fn more_components_than_training_points_are_an_error() {
    let points = points_on("sphere:2", 60);
    // 54 of the points are learned from.
    for count in [54, 55] {
        let mixture = Parametric { components: Some(count) };
        for request in [mixture.vmf(), mixture.kent()] {
            let error = fit(&points, request).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), count > 54, "{count}: {error:?}");
            assert!(error.is_none_or(|error| error.contains("components") && error.contains("55")));
        }
    }
}

/// Progress comes through a callback; stopping there leaves a usable model.
#[test]
fn a_callback_stops_a_training_and_leaves_a_model() {
    let points = points_on("sphere:2", 100);
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let done = Fit::new(small().steps(100_000))
        .progress(move |progress| {
            if progress.stage == "training" {
                counter.store(progress.done, Ordering::Relaxed);
                assert_eq!(progress.total, 100_000);
            }
            match progress.stage {
                "training" if progress.done >= 25 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })
        .run(&points)
        .unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 25);
    assert_eq!(done.outcome.steps, 25);
    assert_eq!(done.outcome.validation_nll, None, "it was never validated");
    let log_p = done.model.log_density(points.rows()).unwrap();
    assert!(log_p.iter().all(|v| v.is_finite()));
    assert_eq!(load_again(done.model.as_ref()).log_density(points.rows()).unwrap(), log_p);
}

#[test]
fn wrong_calls_get_one_clear_sentence() {
    let points = points_on("sphere:2", 60);
    let sentence =
        |points: &Points, request: Request| fit(points, request).unwrap_err().to_string();
    let names: Vec<&str> = METHODS.iter().map(|method| method.info().name).collect();
    assert_eq!(
        sentence(&points, "forest".into()),
        format!("unknown method 'forest'; allowed: {}", names.join(", "))
    );
    let choices = json!({ "batchsize": 3 });
    let request = Request::named("rdm", choices);
    assert!(sentence(&points, request).starts_with("configuration: unknown field `batchsize`"),);
    assert_eq!(
        sentence(&points, Rdm::default().steps(0).into()),
        "train.steps = 0 is not allowed; at least 1"
    );
    // What a method cannot have is refused, not left out.
    let other = |section: &str, key: &str, value: Value| {
        let mut choices = json!({});
        choices[section][key] = value;
        choices
    };
    assert_eq!(
        sentence(&points, Request::named("rcnf", other("net", "time_pairs", json!(4)))),
        "net.time_pairs = 4 is not allowed; this method knows only 0 or false"
    );
    let spheres = points_on("sphere:3", 60);
    let generators = Request::named("rsgm", other("model", "form", json!("generators")));
    assert!(sentence(&spheres, generators).starts_with("model.form = generators is not allowed"));
    let weighted = points.clone().with_weights(vec![1.0; 60]).unwrap();
    assert_eq!(
        sentence(&weighted, "rdm".into()),
        "method rdm does not take weights yet; leave them out"
    );
    let context = Context { names: vec!["depth".into()], values: vec![1.0; 60] };
    let conditioned = points.clone().with_context(context).unwrap();
    assert_eq!(
        sentence(&conditioned, Kernel::default().into()),
        "method kernel does not take context columns yet; leave them out"
    );
    let prior = Arc::new(manifusion::prior::StandardNormal::new(2));
    let error = Fit::new("kernel").prior(prior).run(&points).unwrap_err().to_string();
    assert_eq!(error, "the prior's points have 2 numbers, those of sphere:2 have 3");
    let one = points.select(&[0]).unwrap();
    assert_eq!(
        sentence(&one, "kernel".into()),
        "1 rows are too few: the parts would have 1, 0 and 0 rows, and each needs at least one"
    );
    let ellipsoid = points_on("level:x^2+y^2/4+z^2-1", 60);
    assert_eq!(
        sentence(&ellipsoid, "kernel".into()),
        "method kernel is not known on level:x^2+y^2/4+z^2-1; it knows spheres, tori, SO(3), R^d, \
         their products, and hyperbolic space"
    );
}

fn leaves(prefix: &str, value: &Value, out: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().unwrap() {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if value.is_object() { leaves(&name, value, out) } else { assert!(out.insert(name)) }
    }
}

/// What the registry says of settings is what a run has, with nothing left open.
#[test]
fn the_registry_describes_every_setting() {
    let points = points_on("sphere:2", 60);
    for method in METHODS {
        let info = method.info();
        assert!(!info.help.is_empty() && !info.title.is_empty() && !info.manifolds.is_empty());
        let model = fit(&points, quick(info.name)).unwrap();
        let mut found = BTreeSet::new();
        leaves("", &model.settings().unwrap(), &mut found);
        let described: BTreeSet<String> = info
            .settings
            .iter()
            .copied()
            .flatten()
            .map(|setting| {
                assert!(setting.help.ends_with('.') && !setting.kind.is_empty(), "{setting:?}");
                setting.name.to_owned()
            })
            .collect();
        assert_eq!(found, described, "{}", info.name);
    }
}

/// The JSON of an evaluation has the keys that [`METRICS`] explains, and comes back as it was.
#[test]
fn an_evaluation_survives_its_json() {
    let points = points_on("sphere:2", 60);
    let model = fit(&points, "kernel").unwrap();
    let options = EvaluationOptions::default();
    let found =
        evaluate(model.as_ref(), &points, Baselines::default(), &options, 0, &Watch::default())
            .unwrap();
    let text = serde_json::to_string(&found).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    for metric in METRICS {
        let optional = metric.key == "stopped";
        assert!(optional || json.get(metric.key).is_some(), "{}", metric.key);
    }
    assert_eq!(json.as_object().unwrap().len(), METRICS.len() - 1);
    let back: Evaluation = serde_json::from_str(&text).unwrap();
    assert_eq!(back, found);
    assert!((found.mass.unwrap() - 1.0).abs() < 0.02, "{:?}", found.mass);
}

/// Of many points some are judged: a random choice, the same for every model, not the first ones.
#[test]
fn of_many_points_some_are_judged() {
    let points = points_on("sphere:2", 60);
    let model = fit(&points, "kernel").unwrap();
    let options = EvaluationOptions { points: 20, mass_points: 0, ..Default::default() };
    let none = Baselines::default();
    let found = evaluate(model.as_ref(), &points, none, &options, 3, &Watch::default()).unwrap();
    let some = options.judged(&points, 3).unwrap();
    assert_eq!((found.n, some.len()), (20, 20));
    let log_p = model.log_density(some.rows()).unwrap();
    assert!((found.nll + log_p.iter().sum::<f64>() / 20.0).abs() < 1e-12);
    let place = |x: &[f64]| points.rows().rows().position(|y| x == y).unwrap();
    let places: BTreeSet<usize> = some.rows().rows().map(place).collect();
    assert!(places.len() == 20 && *places.last().unwrap() > 30, "{places:?}");
    let all = EvaluationOptions { points: 0, ..options };
    assert_eq!(all.judged(&points, 3).unwrap().len(), 60);
}

/// Groups stay together when a fit holds points out.
#[test]
fn held_out_points_are_whole_groups() {
    let points = points_on("sphere:2", 200);
    let names: Vec<String> = (0..200).map(|i| format!("g{}", i / 10)).collect();
    let points = points.with_groups(names).unwrap();
    let (kept, held_out) = manifusion::points::hold_out(&points, 0.1, 4).unwrap();
    let groups = |rows: &[usize]| rows.iter().map(|i| i / 10).collect::<BTreeSet<_>>();
    assert!(groups(&kept).is_disjoint(&groups(&held_out)));
    assert_eq!((kept.len(), held_out.len()), (180, 20));
    let first = Rows::new(points.coordinates(), 3).unwrap();
    assert_eq!(points.first_rows(7).len(), 7);
    assert_eq!(first.range(3..5).unwrap().row(0), points.rows().row(3));
    assert!(first.range(199..201).is_err());
}

/// A difference between the bound and the exact value that its error does not explain is said.
#[test]
fn a_bound_of_another_density_is_said() {
    for (gap, se, is_off) in [(0.3, 0.1, false), (0.41, 0.1, true), (-0.41, 0.1, true)] {
        let mut found = Evaluation::default();
        (found.kelbo_nll, found.nll_on_bound_points) = (Some(2.0 + gap), Some(2.0));
        found.kelbo_gap_se = Some(se);
        assert_eq!(found.kelbo_is_off(), is_off, "{gap}");
        assert_eq!(found.to_string().contains("another density than the ODE"), is_off, "{gap}");
    }
}
