//! Published numbers, in the order of the sets of their table.

use crate::reproduce::kinds::{Kind, Number, Published};

#[expect(clippy::unnecessary_wraps, reason = "numbers that are missing stand beside these")]
const fn of(mean: f64, std: f64) -> Number {
    Some((mean, Some(std)))
}

const PAPER_1: &str = "Huang et al. 2022, Table 1";
const PAPER_2: &str = "Huang et al. 2022, Table 2";
const RFM: &str = "Chen & Lipman 2024";
const RSGM: &str = "De Bortoli et al. 2022";

pub(super) static EARTH_PUBLISHED: &[Published] = &[
    Published {
        method: "RDM",
        values: &[of(-6.61, 0.97), of(-0.40, 0.05), of(0.43, 0.07), of(-1.38, 0.05)],
        kind: Kind::Bound,
        source: PAPER_1,
    },
    Published {
        method: "Riemannian score-based",
        values: &[of(-5.56, 0.26), of(-0.21, 0.03), of(0.52, 0.02), of(-1.24, 0.07)],
        kind: Kind::Ode,
        source: PAPER_1,
    },
    Published {
        method: "Stereographic score-based",
        values: &[of(-4.18, 0.30), of(-0.04, 0.11), of(1.31, 0.16), of(0.28, 0.20)],
        kind: Kind::Ode,
        source: PAPER_1,
    },
    Published {
        method: "Moser flow",
        values: &[of(-2.02, 0.42), of(-0.09, 0.02), of(0.62, 0.04), of(-1.03, 0.03)],
        kind: Kind::Unknown,
        source: PAPER_1,
    },
    Published {
        method: "Riemannian CNF",
        values: &[of(-0.97, 0.15), of(0.19, 0.04), of(0.90, 0.03), of(-0.66, 0.05)],
        kind: Kind::Ode,
        source: PAPER_1,
    },
    Published {
        method: "Mixture of Kent",
        values: &[of(-0.80, 0.47), of(0.33, 0.05), of(0.73, 0.07), of(-1.18, 0.06)],
        kind: Kind::ClosedForm,
        source: PAPER_1,
    },
    Published {
        method: "Riemannian score-based, final",
        values: &[of(-4.92, 0.25), of(-0.19, 0.07), of(0.45, 0.17), of(-1.33, 0.06)],
        kind: Kind::Ode,
        source: RSGM,
    },
    Published {
        method: "Stereographic score-based, final",
        values: &[of(-3.80, 0.27), of(-0.19, 0.05), of(0.59, 0.07), of(-1.28, 0.12)],
        kind: Kind::Ode,
        source: RSGM,
    },
    Published {
        method: "Moser flow, run again",
        values: &[of(-4.21, 0.17), of(-0.16, 0.06), of(0.57, 0.10), of(-1.28, 0.05)],
        kind: Kind::Ode,
        source: RSGM,
    },
    Published {
        method: "Riemannian CNF, run again",
        values: &[of(-6.05, 0.61), of(0.14, 0.23), of(1.11, 0.19), of(-0.80, 0.54)],
        kind: Kind::Ode,
        source: RSGM,
    },
    Published {
        method: "Riemannian flow matching",
        values: &[of(-7.93, 1.67), of(-0.28, 0.08), Some((0.42, None)), of(-1.86, 0.11)],
        kind: Kind::Ode,
        source: RFM,
    },
];

pub(super) static TORUS_PUBLISHED: &[Published] = &[
    Published {
        method: "RDM",
        values: &[
            of(1.04, 0.012),
            of(1.97, 0.012),
            of(0.12, 0.011),
            of(1.24, 0.004),
            of(-3.70, 0.592),
            None,
        ],
        kind: Kind::Bound,
        source: PAPER_2,
    },
    Published {
        method: "MoPS, 4096 components",
        values: &[
            of(1.15, 0.002),
            of(2.08, 0.009),
            of(0.27, 0.008),
            of(1.34, 0.019),
            of(4.08, 0.368),
            None,
        ],
        kind: Kind::ClosedForm,
        source: PAPER_2,
    },
    Published {
        method: "Riemannian flow matching",
        values: &[
            Some((1.01, None)),
            Some((1.90, None)),
            of(0.15, 0.027),
            Some((1.18, None)),
            of(-5.20, 0.067),
            None,
        ],
        kind: Kind::Ode,
        source: RFM,
    },
];
