//! What a table or a figure can consist of; which there are is in the catalogue.

/// A data file: how it is recognised, and where it can be had.
#[derive(Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name in the data folder.
    pub name: &'static str,
    /// Rows below the header line.
    pub rows: usize,
    /// The columns, with their units.
    pub columns: &'static str,
    /// SHA-256 of the file that our numbers are from.
    pub sha256: &'static str,
    /// Where the data can be had.
    pub origin: &'static str,
}

/// Where points come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file of the data folder.
    File(FileInfo),
    /// A generated set, by its name.
    Generated(&'static str),
}

/// A set of points.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    /// Its name in folders, flags and tables.
    pub id: &'static str,
    /// What it is, for the title of a picture.
    pub title: &'static str,
    /// The space that it lives on.
    pub manifold: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// How it differs from the paper's set of this name, if it does.
    pub differs: Option<&'static str>,
}

/// The methods of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// All of the registry.
    All,
    /// These.
    Named(&'static [&'static str]),
}

/// How long a training goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// For the minutes that the user gives.
    Minutes,
    /// For so many steps per minute that the user gives: all variants get the same number.
    StepsPerMinute(u64),
}

/// One way to run methods on a set.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    /// What is added to the set's name; empty for the plain run.
    pub suffix: &'static str,
    /// What it is called in a legend.
    pub title: &'static str,
    /// Settings, `key=value`.
    pub settings: &'static [&'static str],
    /// How long its trainings go on.
    pub budget: Budget,
}

/// Bounds beside exact likelihoods.
#[derive(Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The methods that have them.
    pub methods: &'static [&'static str],
    /// Seeds, from 0 on.
    pub seeds: u64,
    /// Test points.
    pub points: usize,
    /// K of the KELBO.
    pub paths: usize,
    /// The sets whose first seed has several K, one for each manifold, and these.
    pub sweep: (&'static [&'static str], &'static [usize]),
}

impl Bounds {
    /// Each K of the KELBO of one run.
    pub fn paths_of(&self, set: &Set, seed: u64) -> Vec<usize> {
        let (sets, sweep) = self.sweep;
        if seed == 0 && sets.contains(&set.id) { sweep.to_vec() } else { vec![self.paths] }
    }
}

/// A part of a table: methods on all of its sets.
#[derive(Debug)]
pub struct Block {
    /// Its heading.
    pub title: &'static str,
    /// How the methods are run.
    pub variant: &'static Variant,
    /// The methods.
    pub methods: Methods,
    /// Seeds, at most.
    pub seeds: u64,
    /// Bounds to compute.
    pub bounds: Option<Bounds>,
    /// Published numbers that stand below ours.
    pub published: &'static [Published],
}

/// How a published likelihood was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A variational bound.
    Bound,
    /// The probability-flow ODE.
    Ode,
    /// A closed form.
    ClosedForm,
    /// The source does not say.
    Unknown,
}

impl Kind {
    /// For a table.
    pub fn text(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Ode => "ODE",
            Self::ClosedForm => "closed form",
            Self::Unknown => "not stated",
        }
    }
}

/// A published NLL with its standard deviation over runs, where each is known.
pub type Number = Option<(f64, Option<f64>)>;

/// Published numbers of a method.
#[derive(Debug, PartialEq)]
pub struct Published {
    /// The method as it is printed.
    pub method: &'static str,
    /// One number for each set of the table, in its order.
    pub values: &'static [Number],
    /// How likelihoods were computed.
    pub kind: Kind,
    /// Where it is printed.
    pub source: &'static str,
}

/// A table of the paper.
#[derive(Debug)]
pub struct Table {
    /// The sets, one column each.
    pub sets: &'static [&'static Set],
    /// The blocks, one below the other.
    pub blocks: &'static [Block],
    /// What a reader must know.
    pub notes: &'static [&'static str],
}

/// The kind of picture that a panel of a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelKind {
    /// The natural one of the manifold, with test points.
    Natural,
    /// Euler angles of rotations.
    Euler,
}

/// A set with two ways to run a method on it.
#[derive(Debug)]
pub struct BothSettings {
    /// The data.
    pub set: &'static Set,
    /// Our settings.
    pub ours: &'static Variant,
    /// The paper's.
    pub paper: &'static Variant,
}

/// A figure of the paper.
#[derive(Debug)]
pub enum Figure {
    /// Densities of one method on several sets, one panel each.
    Densities {
        /// The method.
        method: &'static str,
        /// How it is run.
        variant: &'static Variant,
        /// The sets.
        sets: &'static [&'static Set],
        /// What panels look like.
        kind: PanelKind,
        /// Panels side by side.
        columns: usize,
    },
    /// The variance of the loss with several proposals of times.
    TimeVariance {
        /// The data.
        set: &'static Set,
        /// How the networks are trained but for the proposal of times.
        variants: &'static [Variant],
    },
    /// Runs of one method that differ in a setting: curves, times and likelihoods.
    Variants {
        /// The data.
        set: &'static Set,
        /// The method.
        method: &'static str,
        /// The runs.
        variants: &'static [Variant],
    },
    /// A method with our settings and with the paper's, in equal time: validation over seconds, one
    /// chart for each set.
    Settings {
        /// The method.
        method: &'static str,
        /// The sets.
        sets: &'static [BothSettings],
    },
    /// A point, its Lorentz projection onto the hyperbola and its closest point.
    Projection {
        /// The point.
        point: [f64; 2],
    },
}

/// What a target consists of.
#[derive(Debug)]
pub enum Content {
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
}

/// What can be reproduced.
#[derive(Debug)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows; the title of a picture.
    pub title: &'static str,
    /// What it consists of.
    pub content: Content,
}

impl Target {
    /// The sets that it needs.
    pub fn sets(&self) -> Vec<&'static Set> {
        match &self.content {
            Content::Table(table) => table.sets.to_vec(),
            Content::Figure(Figure::Densities { sets, .. }) => sets.to_vec(),
            Content::Figure(Figure::TimeVariance { set, .. } | Figure::Variants { set, .. }) => {
                vec![*set]
            }
            Content::Figure(Figure::Settings { sets, .. }) => {
                sets.iter().map(|both| both.set).collect()
            }
            Content::Figure(Figure::Projection { .. }) => Vec::new(),
        }
    }
}
