//! The binary as a user runs it. One program: a program per file costs minutes of linking.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod commands;
mod common;
mod crash;
mod errors;
mod reproduce;
