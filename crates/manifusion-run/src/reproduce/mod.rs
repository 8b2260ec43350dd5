//! The paper's tables and figures again: which runs they need, the runs, and the tables from their
//! results.
//!
//! What a table or a figure consists of is data ([`TARGETS`]). Runs are those of
//! [`compare`](crate::compare()), in `OUT/runs/SET`; what came of each is `OUT/results/SET/*.json`,
//! and tables are made from these alone ([`table_markdown`]). A figure that shows runs of a table
//! uses them.

mod catalogue;
mod kinds;
mod table;
pub(crate) mod variance;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use manifusion::evaluation::EvaluationOptions;
use manifusion::hash::sha256_hex;
use manifusion::methods::METHODS;
use manifusion::points::SplitPart;
use manifusion::watch::Watch;
use serde::Serialize;

pub use catalogue::TARGETS;
pub use kinds::{
    Block, BothSettings, Bounds, Budget, Content, Figure, FileInfo, Kind, Methods, Number, Origin,
    PanelKind, Published, Set, Table, Target, Variant,
};
pub use table::{settings_markdown, table_markdown, time_variance_markdown, variants_markdown};
pub use variance::{TimeVariance, VarianceCurve};

use crate::compare::{Comparison, Plan, compare, read_results};
use crate::config::Config;
use crate::error::RunError;
use crate::folder::{RunDir, io_error};
use crate::stored::StoredRun;
use variance::Extent;

/// The folder of the results.
const RESULTS: &str = "results";
/// The folder of the runs.
const RUNS: &str = "runs";

/// What runs with our settings and with the paper's are called.
const OURS: &str = "ours";
const PAPERS: &str = "the paper's";

/// Seeds of a figure with numbers, at most.
const FIGURE_SEEDS: u64 = 3;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The folder of the data files; none if there is none.
    pub data: Option<PathBuf>,
    /// Where everything goes.
    pub out: PathBuf,
    /// Minutes of a training.
    pub minutes: f64,
    /// Seeds, from 0 on.
    pub seeds: u64,
    /// Only these methods of a table; all of its own if empty.
    pub methods: Vec<String>,
    /// Only these sets; all if empty.
    pub sets: Vec<String>,
    /// Runs side by side; one per thread by default.
    pub jobs: Option<usize>,
}

/// The folder of the data files: the one that is given, else that of the environment, else
/// `../shared/data` where that exists.
pub fn data_folder(given: Option<PathBuf>, environment: Option<PathBuf>) -> Option<PathBuf> {
    let beside = || Some(PathBuf::from("../shared/data")).filter(|folder| folder.is_dir());
    given.or(environment).or_else(beside)
}

/// The targets of a name; all of them for `all`.
pub fn targets(name: &str) -> Vec<&'static Target> {
    TARGETS.iter().filter(|target| name == "all" || target.name == name).collect()
}

/// Reproductions at work: makes runs that are missing, and remembers what could not be made.
pub struct Reproduction<'a> {
    wanted: &'a Wanted,
    watch: &'a Watch,
    remark: &'a (dyn Fn(&str) + Sync),
    /// What was left out, in sentences.
    pub left_out: Vec<String>,
}

/// Runs of a set that are to be made.
struct Planned {
    id: String,
    plan: Plan,
    folder: PathBuf,
}

/// A run whose density is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct PanelRun {
    /// The title of its panel.
    pub title: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// One of several runs that differ in a setting.
#[derive(Debug)]
pub struct VariantRun {
    /// What it is called.
    pub title: &'static str,
    /// The run.
    pub stored: StoredRun,
    /// What came of the runs of all seeds.
    pub comparison: Comparison,
}

impl<'a> Reproduction<'a> {
    /// Nothing made yet. An error for wishes that make no sense.
    pub fn new(
        wanted: &'a Wanted,
        watch: &'a Watch,
        remark: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self, RunError> {
        let wrong = |sentence: String| Err(RunError::Settings(sentence));
        if !(wanted.minutes > 0.0 && wanted.minutes.is_finite()) {
            return wrong(format!("a budget of {} minutes; a number above 0", wanted.minutes));
        }
        if wanted.seeds == 0 {
            return wrong(String::from("0 seeds are not allowed; at least 1"));
        }
        let known = || TARGETS.iter().flat_map(Target::sets).map(|set| set.id);
        if let Some(unknown) = wanted.sets.iter().find(|id| known().all(|known| known != **id)) {
            let mut all: Vec<&str> = Vec::new();
            known().for_each(|id| {
                if !all.contains(&id) {
                    all.push(id);
                }
            });
            return wrong(format!("there is no set {unknown}; the sets are {}", all.join(", ")));
        }
        std::fs::create_dir_all(&wanted.out).map_err(io_error("creating", &wanted.out))?;
        Ok(Self { wanted, watch, remark, left_out: Vec::new() })
    }

    /// The folder of what came of the runs, from which tables are made.
    pub fn results(&self) -> PathBuf {
        self.wanted.out.join(RESULTS)
    }

    /// Whether the work was stopped; what is done is kept, and the same call goes on.
    pub fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    /// Makes the runs of a table and the table, `OUT/NAME.md`; its text.
    pub fn table(&mut self, target: &Target, table: &Table) -> Result<String, RunError> {
        for block in table.blocks {
            let methods = self.methods(block.methods);
            for set in table.sets {
                if methods.is_empty() || !self.wants(set) || self.is_stopped() {
                    continue;
                }
                let Block { seeds: most, variant, .. } = block;
                if self.wanted.seeds > *most {
                    let id = format!("{}{}", set.id, variant.suffix);
                    (self.remark)(&format!("{id}: {most} seeds, as the table has"));
                }
                let seeds: Vec<u64> = (0..self.wanted.seeds.min(*most)).collect();
                let Some(folder) = self.runs(set, block.variant, &methods, &seeds)? else {
                    continue;
                };
                if let Some(bounds) = &block.bounds
                    && !self.is_stopped()
                {
                    self.bounds(set, block.variant, bounds, &methods, &folder)?;
                }
            }
        }
        let text = table_markdown(target.title, table, &self.results())?;
        RunDir::other(&self.wanted.out).write(&format!("{}.md", target.name), text.as_bytes())?;
        Ok(text)
    }

    /// The runs whose densities a figure shows, seed 0 of each set that is wanted and there.
    pub fn density_runs(
        &mut self,
        method: &str,
        variant: &Variant,
        sets: &[&'static Set],
    ) -> Result<Vec<PanelRun>, RunError> {
        let mut panels = Vec::new();
        let ways: Vec<(&Set, &Variant)> = sets.iter().map(|set| (*set, variant)).collect();
        for (set, folder) in sets.iter().zip(self.first_runs(method, &ways)?) {
            let Some(folder) = folder else { continue };
            let run = crate::compare::run_folder(&folder, method, 0);
            if opened(&run)?.is_some_and(|stored| stored.is_finished()) {
                panels.push(PanelRun { title: set.title.to_owned(), folder: run });
            } else if !self.is_stopped() {
                self.leave_out(format!("{}: {method} has no model", set.id));
            }
        }
        Ok(panels)
    }

    /// Runs of one method that differ in a setting, three seeds at most, with the first seed's in
    /// its folder.
    pub fn variant_runs(
        &mut self,
        set: &'static Set,
        method: &str,
        variants: &'static [Variant],
    ) -> Result<Vec<VariantRun>, RunError> {
        let seeds: Vec<u64> = (0..self.wanted.seeds.min(FIGURE_SEEDS)).collect();
        let mut found = Vec::new();
        for variant in variants {
            if !self.wants(set) || self.is_stopped() {
                continue;
            }
            if let Some(folder) = self.runs(set, variant, &[method.to_owned()], &seeds)? {
                found.extend(self.variant_run(
                    (set, variant),
                    method,
                    variant.title,
                    &seeds,
                    &folder,
                )?);
            }
        }
        Ok(found)
    }

    /// Runs with our settings and with the paper's, the first seed of each set; sets without both
    /// are left out. A run that failed has its curve as far as it came.
    pub fn settings_runs(
        &mut self,
        method: &str,
        sets: &'static [BothSettings],
    ) -> Result<Vec<(&'static Set, [VariantRun; 2])>, RunError> {
        let ways: Vec<(&Set, &Variant)> =
            sets.iter().flat_map(|both| [(both.set, both.ours), (both.set, both.paper)]).collect();
        let folders = self.first_runs(method, &ways)?;
        let mut found = Vec::new();
        for (BothSettings { set, ours, paper }, folders) in sets.iter().zip(folders.chunks(2)) {
            let [Some(of_ours), Some(of_paper)] = folders else { continue };
            let ours = self.variant_run((set, ours), method, OURS, &[0], of_ours)?;
            let paper = self.variant_run((set, paper), method, PAPERS, &[0], of_paper)?;
            if let (Some(ours), Some(paper)) = (ours, paper) {
                found.push((*set, [ours, paper]));
            }
        }
        Ok(found)
    }

    /// Runs of one method in a folder of its runs, with the first seed's; none if that failed
    /// before it had a folder.
    fn variant_run(
        &mut self,
        (set, variant): (&Set, &Variant),
        method: &str,
        title: &'static str,
        seeds: &[u64],
        folder: &Path,
    ) -> Result<Option<VariantRun>, RunError> {
        let run = crate::compare::run_folder(folder, method, 0);
        let mut results = read_results(folder)?;
        results.retain(|result| result.method == method && seeds.contains(&result.seed));
        let comparison = Comparison::of(&results)?;
        if let Some(stored) = opened(&run)? {
            return Ok(Some(VariantRun { title, stored, comparison }));
        }
        if !self.is_stopped() {
            self.leave_out(format!("{}{}: {method} failed", set.id, variant.suffix));
        }
        Ok(None)
    }

    /// The variance of the loss with several proposals of times, one measurement for each seed,
    /// three at most; none without the data, or if it was stopped.
    pub fn time_variance(
        &mut self,
        target: &Target,
        set: &'static Set,
        variant: &Variant,
    ) -> Result<Option<Vec<TimeVariance>>, RunError> {
        let seeds = 0..self.wanted.seeds.min(FIGURE_SEEDS);
        seeds.map(|seed| self.time_variance_of(target, set, variant, seed)).collect()
    }

    /// The same for one seed, `OUT/results/NAME.json`.
    fn time_variance_of(
        &mut self,
        target: &Target,
        set: &'static Set,
        variant: &Variant,
        seed: u64,
    ) -> Result<Option<TimeVariance>, RunError> {
        let dir = RunDir::other(&self.results());
        let stem = format!("{}{}-seed{seed}", target.name, variant.suffix);
        let name = format!("{stem}.json");
        let steps = self.steps(variant).unwrap_or(0);
        if let Some(found) = dir.json::<TimeVariance>(&name)? {
            if !found.is_whole() {
                return Err(dir.does_not_parse(&name, "curves of different lengths"));
            }
            if found.steps.last() == Some(&steps) {
                return Ok(Some(found));
            }
            return Err(RunError::OtherPlan {
                path: dir.file(&name),
                key: String::from("steps"),
                before: found.steps.last().map_or_else(|| String::from("none"), u64::to_string),
                now: steps.to_string(),
            });
        }
        if !self.wants(set) {
            return Ok(None);
        }
        let Some(mut config) = self.config(set, variant)? else { return Ok(None) };
        config.put("method", variance::METHOD);
        config.put("seed", i64::try_from(seed).unwrap_or(i64::MAX));
        let runs = self.wanted.out.join(RUNS);
        std::fs::create_dir_all(&runs).map_err(io_error("creating", &runs))?;
        let kept = runs.join(format!("{stem}.safetensors"));
        let extent = Extent::of_steps(steps);
        let found = variance::measure(&config.choices()?, extent, &kept, self.watch)?;
        if let Some(found) = &found {
            std::fs::create_dir_all(dir.path()).map_err(io_error("creating", dir.path()))?;
            dir.write_json(&name, found)?;
            std::fs::remove_file(&kept).map_err(io_error("removing", &kept))?;
        }
        Ok(found)
    }

    fn wants(&self, set: &Set) -> bool {
        self.wanted.sets.is_empty() || self.wanted.sets.iter().any(|id| id == set.id)
    }

    fn leave_out(&mut self, sentence: String) {
        (self.remark)(&sentence);
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
    }

    /// The methods of a block that are wanted.
    fn methods(&self, methods: Methods) -> Vec<String> {
        let all: Vec<&str> = match methods {
            Methods::All => METHODS.iter().map(|method| method.info().name).collect(),
            Methods::Named(names) => names.to_vec(),
        };
        let wanted = |name: &&str| {
            self.wanted.methods.is_empty() || self.wanted.methods.iter().any(|own| own == name)
        };
        all.into_iter().filter(wanted).map(str::to_owned).collect()
    }

    /// The number of steps of a variant that counts them.
    fn steps(&self, variant: &Variant) -> Option<u64> {
        match variant.budget {
            Budget::Minutes => None,
            Budget::StepsPerMinute(pace) => {
                Some((pace as f64 * self.wanted.minutes).round().max(20.0) as u64)
            }
        }
    }

    /// Data and settings of a variant; none, with a sentence that says why, without the data.
    fn config(&mut self, set: &Set, variant: &Variant) -> Result<Option<Config>, RunError> {
        let mut config = Config::default();
        match &set.origin {
            Origin::Generated(name) => config.put("data.source", format!("synthetic:{name}")),
            Origin::File(file) => match find(file, self.wanted.data.as_deref())? {
                Found::Here { path, remark } => {
                    if let Some(sentence) = remark {
                        (self.remark)(&sentence);
                    }
                    config.put("data.source", path.display().to_string());
                }
                Found::Absent(sentence) => {
                    self.leave_out(sentence);
                    return Ok(None);
                }
            },
        }
        config.put("manifold", set.manifold);
        match self.steps(variant) {
            None => config.put("train.minutes", self.wanted.minutes),
            Some(steps) => config.put("train.steps", i64::try_from(steps).unwrap_or(i64::MAX)),
        }
        for setting in variant.settings {
            config.set(setting)?;
        }
        Ok(Some(config))
    }

    /// Makes runs that are missing, and keeps their results; the folder of the runs, or none
    /// without the data.
    fn runs(
        &mut self,
        set: &Set,
        variant: &Variant,
        methods: &[String],
        seeds: &[u64],
    ) -> Result<Option<PathBuf>, RunError> {
        let Some(planned) = self.planned(set, variant, methods, seeds)? else { return Ok(None) };
        self.make(&planned, self.watch)?;
        Ok(Some(planned.folder))
    }

    /// The same for seed 0 of one method on several sets or in several ways, side by side; none
    /// also for sets that are not wanted.
    fn first_runs(
        &mut self,
        method: &str,
        ways: &[(&Set, &Variant)],
    ) -> Result<Vec<Option<PathBuf>>, RunError> {
        let mut all = Vec::new();
        for (set, variant) in ways {
            let is_wanted = self.wants(set) && !self.is_stopped();
            let planned = is_wanted
                .then(|| self.planned(set, variant, &[method.to_owned()], &[0]))
                .transpose()?;
            all.push(planned.flatten());
        }
        let wanted: Vec<&Planned> = all.iter().flatten().collect();
        self.watch.begin("runs", wanted.len() as u64, 0);
        let (next, error) = (AtomicUsize::new(0), Mutex::new(None));
        let lock = || error.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            while !self.is_stopped()
                && lock().is_none()
                && let Some(planned) = wanted.get(next.fetch_add(1, Ordering::Relaxed))
            {
                match self.make(planned, &self.watch.silent()) {
                    Ok(()) => self.watch.advance(1),
                    Err(problem) => *lock() = Some(problem),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs().min(wanted.len()) {
                scope.spawn(work);
            }
        });
        if let Some(error) = lock().take() {
            return Err(error);
        }
        Ok(all.into_iter().map(|planned| Some(planned?.folder)).collect())
    }

    /// Runs side by side.
    fn jobs(&self) -> usize {
        self.wanted.jobs.unwrap_or_else(rayon::current_num_threads)
    }

    /// Runs as they are to be made; none without the data.
    fn planned(
        &mut self,
        set: &Set,
        variant: &Variant,
        methods: &[String],
        seeds: &[u64],
    ) -> Result<Option<Planned>, RunError> {
        let Some(config) = self.config(set, variant)? else { return Ok(None) };
        let id = format!("{}{}", set.id, variant.suffix);
        let folder = self.wanted.out.join(RUNS).join(&id);
        let plan = Plan {
            config,
            methods: methods.to_vec(),
            seeds: seeds.to_vec(),
            splits: Vec::new(),
            // Given, so that a run has the same share of the threads in a table and in a figure.
            jobs: Some(self.jobs()),
        };
        Ok(Some(Planned { id, plan, folder }))
    }

    /// Makes what is missing of the runs, and keeps their results.
    fn make(&self, planned: &Planned, watch: &Watch) -> Result<(), RunError> {
        let Planned { id, plan, folder } = planned;
        let remark = |text: &str| (self.remark)(&format!("{id}: {text}"));
        compare(plan, folder, watch, &remark)?;
        let kept = self.results().join(id);
        for result in read_results(folder)? {
            keep(&kept, &crate::compare::run_name(&result.method, result.seed), &result)?;
        }
        Ok(())
    }

    /// Computes bounds that are missing.
    fn bounds(
        &self,
        set: &Set,
        variant: &Variant,
        bounds: &Bounds,
        methods: &[String],
        folder: &Path,
    ) -> Result<(), RunError> {
        let kept = self.results().join(bounds_id(set, variant));
        let wanted = bounds.methods.iter().filter(|name| methods.iter().any(|own| own == *name));
        for method in wanted {
            for seed in 0..bounds.seeds.min(self.wanted.seeds) {
                for paths in bounds.paths_of(set, seed) {
                    let run = crate::compare::run_folder(folder, method, seed);
                    let name = bounds_name(method, seed, paths);
                    if kept.join(format!("{name}.json")).is_file() || self.watch.is_stopped() {
                        continue;
                    }
                    let Some(stored) = opened(&run)?.filter(StoredRun::is_finished) else {
                        continue;
                    };
                    let options = EvaluationOptions {
                        bound_points: bounds.points,
                        kelbo_paths: paths,
                        mass_points: 0,
                        ..stored.settings().evaluate
                    };
                    let found = stored.evaluate(SplitPart::Test, &options, 0, self.watch)?;
                    if !found.stopped {
                        (self.remark)(&format!("{}: bounds, {name}", set.id));
                        keep(&kept, &name, &found)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A run; none where the method failed before it had a folder.
fn opened(run: &Path) -> Result<Option<StoredRun>, RunError> {
    match StoredRun::open(run) {
        Ok(stored) => Ok(Some(stored)),
        Err(RunError::Absent { .. } | RunError::NoRun { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The folder of a block's bounds.
fn bounds_id(set: &Set, variant: &Variant) -> String {
    format!("{}{}-bounds", set.id, variant.suffix)
}

/// The bounds of a run with K paths.
fn bounds_name(method: &str, seed: u64, paths: usize) -> String {
    format!("{}-k{paths}", crate::compare::run_name(method, seed))
}

/// A result as a small file: one line.
fn keep<T: Serialize>(folder: &Path, name: &str, result: &T) -> Result<(), RunError> {
    std::fs::create_dir_all(folder).map_err(io_error("creating", folder))?;
    let dir = RunDir::other(folder);
    let file = format!("{name}.json");
    let text =
        serde_json::to_string(result).map_err(|e| dir.does_not_parse(&file, &e.to_string()))?;
    dir.write(&file, format!("{text}\n").as_bytes())
}

enum Found {
    Here { path: PathBuf, remark: Option<String> },
    Absent(String),
}

/// Looks for a data file. Another file of the same name is used, with a sentence that says so.
fn find(file: &FileInfo, folder: Option<&Path>) -> Result<Found, RunError> {
    let FileInfo { name, rows, columns, sha256, origin } = file;
    let place = match folder {
        None => String::from("there is no data folder (--data DIR, or MANIFUSION_DATA)"),
        Some(folder) => {
            let path = folder.join(name);
            if path.is_file() {
                let bytes = std::fs::read(&path).map_err(io_error("reading", &path))?;
                let same = sha256_hex(&bytes) == *sha256;
                let remark = (!same).then(|| {
                    format!("{name} is not the file of our published numbers (SHA-256 {sha256})")
                });
                return Ok(Found::Here { path, remark });
            }
            format!("it is not in {}", folder.display())
        }
    };
    Ok(Found::Absent(format!(
        "{name} is left out: {place}. It is a CSV file with the header line and columns {columns}, \
         {rows} rows; where from: {origin}"
    )))
}
