//! Tests of pictures and the report. One program: a program per file costs minutes of linking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod browser;
mod common;
mod pictures;
mod report;
mod units;
