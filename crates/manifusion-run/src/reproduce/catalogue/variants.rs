//! Ways to run a method on a set.

use crate::reproduce::kinds::{Bounds, Budget, Variant};

/// The usual run. Bounds are computed apart, where a table asks for them.
pub(super) static PLAIN: Variant = Variant {
    suffix: "",
    title: "",
    settings: &["evaluate.bound_points=0"],
    budget: Budget::Minutes,
};
/// Many rows, so that a model and not the number of points decides; the paper names none.
pub(super) static GENERATED: Variant = Variant {
    suffix: "",
    title: "",
    settings: &["evaluate.bound_points=0", "evaluate.mass_points=0", "data.rows=100000"],
    budget: Budget::Minutes,
};
pub(super) static DEDUPLICATED: Variant = Variant {
    suffix: "-dedup",
    title: "without repeated rows",
    settings: &["evaluate.bound_points=0", "data.dedup=true"],
    budget: Budget::Minutes,
};

pub(super) const BOUNDS: Bounds = Bounds {
    methods: &["rdm"],
    seeds: 1,
    points: 50,
    paths: 100,
    sweep: (
        &["earthquake", "glycine", "rna", "hyperbolic-checkerboard", "so3-modes"],
        &[1, 10, 100, 1000],
    ),
};

/// The paper's noise: Heun steps in place of direct draws. Its loss, on a network of half its width
/// that a laptop trains in minutes.
macro_rules! integration {
    ($suffix:literal, $title:literal, $steps:literal) => {
        Variant {
            suffix: $suffix,
            title: $title,
            settings: &[
                "evaluate.bound_points=0",
                "evaluate.mass_points=0",
                "preset=paper",
                "net.width=128",
                "train.batch=256",
                "train.patience=1000",
                "train.times=log-uniform",
                "model.s_min=1e-4",
                $steps,
            ],
            budget: Budget::StepsPerMinute(1000),
        }
    };
}

pub(super) static INTEGRATION: &[Variant] = &[
    integration!("-direct", "direct", "train.noise_steps=0"),
    integration!("-heun10", "10", "train.noise_steps=10"),
    integration!("-heun100", "100", "train.noise_steps=100"),
    integration!("-heun1000", "1000", "train.noise_steps=1000"),
];

/// The paper's settings as far as it states them, those of `configs/paper`.
macro_rules! paper {
    ($name:ident, $($setting:literal),*) => {
        pub(super) static $name: Variant = Variant {
            suffix: "-paper",
            title: "",
            settings: &[
                "evaluate.bound_points=0",
                "evaluate.mass_points=0",
                "preset=paper",
                "train.times_gradient=reparameterised",
                $($setting),*
            ],
            budget: Budget::Minutes,
        };
    };
}

paper!(PAPER_SPHERE, "train.noise_steps=100");
paper!(PAPER_TORUS, "train.noise_steps=1000");
paper!(PAPER_HYPERBOLIC, "train.noise_steps=100", "data.rows=100000");
paper!(PAPER_ROTATIONS, "train.noise_steps=100", "train.divergence=hutchinson", "data.rows=100000");

/// One loss, without smoothing. The proposal is updated fifty times as often as in the paper, which
/// trains far longer.
macro_rules! time_variance {
    ($suffix:literal, $title:literal, $($setting:literal),*) => {
        Variant {
            suffix: $suffix,
            title: $title,
            settings: &[
                "preset=paper",
                "net.width=128",
                "net.depth=3",
                "train.batch=512",
                "train.times_every=10",
                "train.times_scale=log",
                "model.s_min=1e-4",
                $($setting),*
            ],
            budget: Budget::StepsPerMinute(1500),
        }
    };
}

/// The same of a network that resolves the data's detail.
macro_rules! resolved_time_variance {
    ($suffix:literal, $title:literal, $loss:literal) => {
        time_variance!(
            $suffix,
            $title,
            $loss,
            "net.inverse_noise=true",
            "net.time_pairs=4",
            "net.fourier=256",
            "net.fourier_max=100.0"
        )
    };
}

pub(super) static TIME_VARIANCE: &[Variant] = &[
    time_variance!("-implicit", "implicit loss, plain network", "train.loss=implicit"),
    time_variance!("-denoising", "denoising loss, plain network", "train.loss=denoising"),
    resolved_time_variance!(
        "-implicit-features",
        "implicit loss, Fourier features",
        "train.loss=implicit"
    ),
    resolved_time_variance!(
        "-denoising-features",
        "denoising loss, Fourier features",
        "train.loss=denoising"
    ),
];
