//! Tests of the library. One program: a program per file costs minutes of linking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod by_rows;
mod common;
mod directional;
mod flow_densities;
mod front_door;
mod geodesics;
mod golden_geometry;
mod heat_kernels;
mod kernel_mixture;
mod known_errors;
mod known_score;
mod layers;
mod local_weights;
mod manifold_laws;
mod nn_activation;
mod nn_checkpoint;
mod nn_golden;
mod nn_gradients;
mod nn_training;
mod noising_paths;
mod optim_steps;
mod parzen;
mod peer_methods;
mod power_spherical;
mod smoothing;
mod solvers;
mod splits;
mod synthetic_data;
mod time_budget;
mod time_proposal;
mod total_mass;
mod training;
