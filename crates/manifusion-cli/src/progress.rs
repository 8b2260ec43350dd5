//! The progress bar on standard error: shown on a terminal, silent otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar with the last numbers beside it.
pub(crate) struct Progress {
    bar: ProgressBar,
    loss: f64,
    variance: f64,
    validation: Option<f64>,
}

impl Progress {
    /// A bar that stays silent if `quiet`, or if standard error is no terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(4)
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let template = "{bar:24} {pos}/{len} steps, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, loss: f64::NAN, variance: f64::NAN, validation: None }
    }

    pub(crate) fn start(&mut self, total: u64, done: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.reset_eta();
    }

    pub(crate) fn step(&mut self, step: u64, loss: f64, variance: f64) {
        (self.loss, self.variance) = (loss, variance);
        self.bar.set_position(step);
        self.show();
    }

    pub(crate) fn validated(&mut self, nll: f64) {
        self.validation = Some(nll);
        self.show();
    }

    fn show(&self) {
        let validation = self.validation.map_or(String::from("-"), |nll| format!("{nll:.4}"));
        self.bar.set_message(format!(
            "loss {:.3}, validation NLL {validation}, variance {:.2e}",
            self.loss, self.variance
        ));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
