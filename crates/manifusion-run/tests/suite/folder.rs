//! What a folder keeps, and what is read of it.

use std::ops::ControlFlow;
use std::sync::Arc;

use manifusion::error::PointError;
use manifusion::evaluation::EvaluationOptions;
use manifusion::fit::Fit;
use manifusion::methods::Kernel;
use manifusion::points::SplitPart;
use manifusion::prior::{Langevin, Prior, StandardNormal};
use manifusion::rng::Stream;
use manifusion::watch::Watch;
use manifusion::{Points, fit};
use manifusion_run::{Config, NewRows, RowsRequest, StoredRun, Trained, load, resume, save, train};

use crate::{SMALL, train_in};

/// A standard normal around another place.
#[derive(Debug)]
struct Shifted(StandardNormal);

impl Prior for Shifted {
    fn log_density(&self, x: &[f64]) -> f64 {
        self.0.log_density(&x.iter().map(|x| x - 1.0).collect::<Vec<_>>())
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        self.0.sample(stream, x)?;
        for x in x {
            *x += 1.0;
        }
        Ok(())
    }

    fn drift(&self, x: &[f64], u: &mut [f64]) {
        for (x, u) in x.iter().zip(u) {
            *u = 0.5 * (1.0 - x);
        }
    }

    fn drift_divergence(&self, x: &[f64]) -> f64 {
        self.0.drift_divergence(x)
    }

    fn langevin(&self) -> Langevin {
        self.0.langevin()
    }
}

/// The uniform prior of a level set comes from a Markov chain of seconds: it is run once, and kept.
#[test]
fn the_chain_of_a_level_set_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let spec = "level:x^2+y^2/4+z^2-1";
    let row = |i: u32| {
        let (sin, cos) = (0.1 * f64::from(i)).sin_cos();
        format!("{cos},{},0", 2.0 * sin)
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    std::fs::write(at.join("rows.csv"), format!("x,y,z\n{}\n", rows.join("\n"))).unwrap();
    let source = format!("data.source={}", at.join("rows.csv").display());
    let out = at.join("run");
    let manifold = format!("manifold={spec}");
    train_in(&out, &[&SMALL[2..], &[&source, &manifold]].concat());
    let sampled = |out| StoredRun::open(out).unwrap().model().unwrap().sample(3, 1).unwrap();
    let first = sampled(&out);
    assert!(out.join("prior.safetensors").is_file());
    assert_eq!(sampled(&out), first);
    // Another pool of points gives other samples: the kept one is what is used.
    let other = at.join("other");
    std::fs::create_dir(&other).unwrap();
    for entry in std::fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, other.join(path.file_name().unwrap())).unwrap();
    }
    let file = other.join("prior.safetensors");
    let mut prior = manifusion::checkpoint::Arrays::read(&file).unwrap();
    prior.arrays.get_mut("pool").unwrap().truncate(30 * 3);
    prior.write(&file).unwrap();
    assert_ne!(sampled(&other), first);
}

/// Scoring needs the model and the form of the data, nothing else.
#[test]
fn scoring_reads_only_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train_in(&out, &SMALL);
    for name in ["data.safetensors", "split.json", "kernel.safetensors", "metrics.jsonl"] {
        std::fs::remove_file(out.join(name)).unwrap();
    }
    std::fs::write(out.join("checkpoint.safetensors"), "nothing").unwrap();
    std::fs::write(folder.path().join("new.csv"), "lat,lon\n10,20\n-30,170\n").unwrap();
    let run = StoredRun::open(&out).unwrap();
    let source = folder.path().join("new.csv").display().to_string();
    let rows = NewRows::load(&RowsRequest { source, ..Default::default() }, &run).unwrap();
    let log_p = run.model().unwrap().log_density(rows.points().rows()).unwrap();
    assert!(log_p.len() == 2 && log_p.iter().all(|v| v.is_finite()));
}

/// A generated set has the run's rows with the run's seed, and others with another one.
#[test]
fn generated_rows_to_be_scored_have_a_seed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train_in(&out, &SMALL);
    let run = StoredRun::open(&out).unwrap();
    let load = |seed| {
        let source = "synthetic:sphere-mixture".to_owned();
        let request = RowsRequest { source, rows: Some(5), seed, ..Default::default() };
        NewRows::load(&request, &run).unwrap().points().coordinates().to_vec()
    };
    assert_eq!(load(None), load(Some(run.settings().seed)));
    assert_ne!(load(None), load(Some(4242)));

    let file = folder.path().join("new.csv");
    std::fs::write(&file, "lat,lon\n10,20\n-30,170\n").unwrap();
    let notes = |seed| {
        let source = file.display().to_string();
        NewRows::load(&RowsRequest { source, seed, ..Default::default() }, &run).unwrap().notes
    };
    let said = |notes: Vec<String>| notes.iter().any(|note| note.contains("generated sets alone"));
    assert!(!said(notes(None)) && said(notes(Some(1))));
}

/// A training of twenty steps that is stopped at the seventh.
pub(crate) fn stop_at_seven(out: &std::path::Path, settings: &[&str]) {
    let mut config = Config::default();
    for setting in settings {
        config.set(setting).unwrap();
    }
    let watch = Watch::new(|progress| match progress.training {
        Some(_) if progress.done >= 7 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let ended = train(config.choices().unwrap(), out, &watch, &|_| {}).unwrap();
    assert!(matches!(ended, Trained::Stopped { step: 7, total: 20 }), "{ended:?}");
}

/// A stack keeps its networks and its mixture, and goes on in the same bits where it was stopped.
#[test]
fn a_stack_is_stopped_resumed_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, stopped) = (folder.path().join("whole"), folder.path().join("stopped"));
    let mut settings = SMALL.to_vec();
    settings.extend(["method=stack", "members=2"]);
    train_in(&whole, &settings);
    stop_at_seven(&stopped, &settings);
    assert_eq!(StoredRun::open(&stopped).unwrap().progress().unwrap(), Some((7, 20)));
    resume(&stopped, &Watch::default()).unwrap();
    let files = ["model.safetensors", "network-0.safetensors", "network-1.safetensors"];
    for name in files.into_iter().chain(["kernel.safetensors"]) {
        let bytes = |out: &std::path::Path| std::fs::read(out.join(name)).unwrap();
        assert!(bytes(&whole) == bytes(&stopped), "{name}");
    }
    let run = StoredRun::open(&whole).unwrap();
    let members = run.model().unwrap().members().len();
    assert_eq!(members, 3);
    // The networks differ, and the record says whose line it is.
    let of = |name: &str| std::fs::read(whole.join(name)).unwrap();
    assert!(of(files[1]) != of(files[2]));
    let rows = run.curves().unwrap().rows;
    assert!(rows.iter().any(|row| row.member == Some(1)));
    assert!(rows.iter().any(|row| row.member.is_none()));
}

/// A model without a run: saved by the library, read by the same folder's reader.
#[test]
fn a_fitted_model_is_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let points = Points::synthetic("torus-mixture", 100, 2).unwrap();
    let model = fit(&points, Kernel::default()).unwrap();
    let path = folder.path().join("model");
    save(model.as_ref(), 0, &path).unwrap();
    let loaded = load(&path).unwrap();
    let log_p = model.log_density(points.rows()).unwrap();
    assert_eq!(loaded.log_density(points.rows()).unwrap(), log_p);
    assert_eq!(loaded.info().name, "kernel");
    // A prior that the folder would not keep makes another density: refused.
    let plane = Points::synthetic("plane-moons", 60, 1).unwrap();
    let shifted = Arc::new(Shifted(StandardNormal::new(2)));
    let own = Fit::new("kernel").prior(shifted).run(&plane).unwrap().model;
    let error = save(own.as_ref(), 0, &folder.path().join("own")).unwrap_err().to_string();
    assert!(error.starts_with("the model has a prior of its own, which a folder"), "{error}");
    assert!(
        save(model.as_ref(), 0, &path).unwrap_err().to_string().contains("already holds a run")
    );
}

/// A training that is stopped leaves a checkpoint; going on ends in the same bits as an unbroken
/// run.
#[test]
fn a_stopped_run_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, stopped) = (folder.path().join("whole"), folder.path().join("stopped"));
    train_in(&whole, &SMALL);
    stop_at_seven(&stopped, &SMALL);
    let run = StoredRun::open(&stopped).unwrap();
    assert_eq!(run.progress().unwrap(), Some((7, 20)));
    assert!(run.model().unwrap_err().to_string().contains("has no model yet"));
    resume(&stopped, &Watch::default()).unwrap();
    let bytes = |out: &std::path::Path| std::fs::read(out.join("model.safetensors")).unwrap();
    assert!(bytes(&whole) == bytes(&stopped));
    assert!(resume(&stopped, &Watch::default()).unwrap_err().to_string().contains("is finished"));
}

/// An evaluation that is stopped has what was computed and says so; it does not replace a whole
/// one.
#[test]
fn a_stopped_evaluation_leaves_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train_in(&out, &SMALL);
    let run = StoredRun::open(&out).unwrap();
    let options = EvaluationOptions { bound_points: 2, mass_points: 100, ..Default::default() };
    let stop_at = |stage: &'static str| {
        Watch::new(move |progress| {
            if progress.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    };
    let evaluate = |watch: &Watch| run.evaluate(SplitPart::Test, &options, 0, watch);
    let found = evaluate(&stop_at("bounds")).unwrap();
    assert!(found.stopped && found.nll.is_finite() && found.kernel_nll.is_some());
    assert_eq!((found.elbo_nll, found.mass), (None, None));
    assert_eq!(run.evaluation(SplitPart::Test).unwrap().unwrap(), found);
    let whole = evaluate(&Watch::default()).unwrap();
    assert!(!whole.stopped && whole.mass.is_some());
    evaluate(&stop_at("mass")).unwrap();
    assert_eq!(run.evaluation(SplitPart::Test).unwrap().unwrap(), whole);
    // Before the first number there is nothing to leave.
    assert!(evaluate(&stop_at("likelihood")).unwrap_err().is_stopped());
}
