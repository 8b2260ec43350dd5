//! Tests of tables and forms. One program: a program per file costs minutes of linking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod duplicates;
mod forms;
mod guessing;
mod mutated_files;
mod real_data;
mod tables;
mod units;
