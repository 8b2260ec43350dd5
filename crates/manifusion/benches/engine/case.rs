//! The cases of the comparison and one step of each.

use manifusion::nn::{
    Directions, FieldInput, FieldOutput, Mlp, NetConfig, ShardCotangents, ShardValues,
    TrainWorkspace, VariationalField,
};
use manifusion::optim::{Adam, AdamConfig};
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use std::path::Path;

use crate::Failure;

/// What a step computes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Work {
    /// ½|Pa|² + Σ e·(∂a/∂x)e + h·a, its gradient and Adam.
    Implicit,
    /// ½|a − target|², its gradient and Adam.
    Denoising,
    /// Value and divergence only.
    Forward,
}

#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: NetConfig,
    pub(crate) rows: usize,
    pub(crate) per_row: usize,
    /// Coordinates of one factor: 3 for S², 2 for a circle.
    pub(crate) block: usize,
    pub(crate) work: Work,
}

pub(crate) fn cases() -> Vec<Case> {
    let sphere = || NetConfig::paper_sphere(3);
    let case = |name, config, rows, per_row, block, work| Case {
        name,
        config,
        rows,
        per_row,
        block,
        work,
    };
    vec![
        case("sphere", sphere(), 512, 2, 3, Work::Implicit),
        case("torus2", NetConfig::paper_torus(4), 512, 2, 2, Work::Implicit),
        case("torus7", NetConfig::paper_torus(14), 512, 7, 2, Work::Implicit),
        case("probe", sphere(), 512, 1, 3, Work::Implicit),
        case("denoising", sphere(), 512, 0, 3, Work::Denoising),
        case("forward", sphere(), 4096, 2, 3, Work::Forward),
    ]
}

impl Case {
    /// Multiplications and additions of the matrix products: one forward product per weight and
    /// stacked row, and two in reverse.
    pub(crate) fn gflop(&self) -> f64 {
        let c = &self.config;
        let weights =
            (c.input_width() + c.ambient_dim) * c.width + (c.depth - 1) * c.width * c.width;
        let passes = if self.work == Work::Forward { 1 } else { 3 };
        (2 * passes * self.rows * (1 + self.per_row) * weights) as f64 / 1e9
    }
}

pub(crate) struct Problem {
    pub(crate) case: Case,
    net: Mlp<f32>,
    workspace: TrainWorkspace<f32>,
    adam: Adam<f32>,
    losses: Vec<f64>,
    x: Vec<f64>,
    s: Vec<f64>,
    e: Vec<f64>,
    /// The mean-curvature vector h, or the target of the denoising loss.
    h: Vec<f64>,
    a: Vec<f64>,
    jvp: Vec<f64>,
}

impl Problem {
    /// Random inputs of the right shapes.
    pub(crate) fn synthetic(case: Case, partitions: usize) -> Result<Self, Failure> {
        let (n, k, m) = (case.rows, case.per_row, case.config.ambient_dim);
        let draw = |row, len| {
            let mut z = vec![0.0; len];
            Streams::new(1, "bench").fill_normal(row, 0, 0, &mut z);
            z
        };
        let s = draw(1, n).iter().map(|z| 0.5 + 0.4 * z.tanh()).collect();
        let data = [draw(0, n * m), s, draw(2, n * k * m), draw(3, n * m)];
        let net = Mlp::new(case.config.clone(), 1)?;
        Self::new(case, partitions, net, data)
    }

    /// Parameters and inputs from little-endian f32 files, the same for all engines.
    pub(crate) fn load(case: Case, partitions: usize, dir: &Path) -> Result<Self, Failure> {
        let mut net = Mlp::new(case.config.clone(), 1)?;
        net.set_params(&read(&dir.join("params.bin"))?)?;
        let double = |name: &str| -> Result<Vec<f64>, Failure> {
            Ok(read(&dir.join(name))?.into_iter().map(f64::from).collect())
        };
        let data = [double("x.bin")?, double("s.bin")?, double("e.bin")?, double("h.bin")?];
        Self::new(case, partitions, net, data)
    }

    fn new(
        case: Case,
        partitions: usize,
        net: Mlp<f32>,
        data: [Vec<f64>; 4],
    ) -> Result<Self, Failure> {
        let [x, s, e, h] = data;
        Ok(Self {
            workspace: net.train_workspace(partitions),
            adam: Adam::new(AdamConfig::default(), net.params().len())?,
            losses: vec![0.0; case.rows],
            a: vec![0.0; x.len()],
            jvp: vec![0.0; e.len()],
            case,
            net,
            x,
            s,
            e,
            h,
        })
    }

    /// One step; the mean loss before it.
    pub(crate) fn step(&mut self) -> Result<f64, Failure> {
        let loss = self.loss()?;
        if self.case.work != Work::Forward {
            let (adam, workspace) = (&mut self.adam, &self.workspace);
            self.net.update_params(|params| adam.step(params, workspace.gradient(), 2e-4))?;
        }
        Ok(loss)
    }

    fn loss(&mut self) -> Result<f64, Failure> {
        let (n, k, m) = (self.case.rows, self.case.per_row, self.case.config.ambient_dim);
        let directions = Directions { per_row: k, e: &self.e, e_s: &[] };
        let input = FieldInput { x: Rows::new(&self.x, m)?, s: &self.s, directions };
        let (x, e, h, block) = (&self.x[..], &self.e[..], &self.h[..], self.case.block);
        let implicit = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
            let first = v.first_row * m;
            let part = |data: &[f64], width: usize| first * width..first * width + data.len();
            let e = &e[part(v.jvp, k)];
            for (i, loss) in c.loss.iter_mut().enumerate() {
                let row = i * m..(i + 1) * m;
                let batch_row = first + i * m..first + (i + 1) * m;
                let (a, a_bar) = (&v.a[row.clone()], &mut c.a[row]);
                *loss = implicit_row(block, &x[batch_row.clone()], &h[batch_row], a, a_bar, n);
                for d in i * k * m..(i + 1) * k * m {
                    *loss += v.jvp[d] * e[d] / n as f64;
                    c.jvp[d] = e[d] / n as f64;
                }
            }
        };
        let denoising = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
            for i in 0..v.a.len() {
                let error = v.a[i] - h[v.first_row * m + i];
                c.loss[i / m] += 0.5 * error * error / n as f64;
                c.a[i] = error / n as f64;
            }
        };
        let (workspace, losses) = (&mut self.workspace, &mut self.losses[..]);
        let loss = match self.case.work {
            Work::Implicit => self.net.loss_gradient(input, &implicit, workspace, losses, None)?,
            Work::Denoising => {
                self.net.loss_gradient(input, &denoising, workspace, losses, None)?
            }
            Work::Forward => {
                self.net.eval(input, FieldOutput { a: &mut self.a, jvp: &mut self.jvp })?;
                let div: f64 = self.jvp.iter().zip(e).map(|(j, e)| j * e).sum();
                let normal: f64 = self.a.iter().zip(h).map(|(a, h)| a * h).sum();
                (div + normal) / n as f64
            }
        };
        Ok(loss)
    }

    /// Writes the gradient (or value and divergence) and returns the loss before and after ten
    /// steps, as `first last`.
    pub(crate) fn check(&mut self, out: &Path) -> Result<String, Failure> {
        let first = self.loss()?;
        let result: Vec<f32> = if self.case.work == Work::Forward {
            self.a.iter().map(|a| *a as f32).collect()
        } else {
            self.workspace.gradient().to_vec()
        };
        let bytes: Vec<u8> = result.iter().flat_map(|g| g.to_le_bytes()).collect();
        std::fs::write(out, bytes)?;
        for _ in 0..10 {
            self.step()?;
        }
        Ok(format!("{first:.9e} {:.9e}", self.loss()?))
    }
}

/// ½|Pa|²/n + h·a/n of one row and its derivative, P = I − xxᵀ in each block of coordinates.
fn implicit_row(block: usize, x: &[f64], h: &[f64], a: &[f64], a_bar: &mut [f64], n: usize) -> f64 {
    let mut loss = 0.0;
    for first in (0..a.len()).step_by(block) {
        let part = first..first + block;
        let normal: f64 = part.clone().map(|d| x[d] * a[d]).sum();
        for d in part {
            let tangential = a[d] - x[d] * normal;
            loss += 0.5 * tangential * tangential + h[d] * a[d];
            a_bar[d] = (tangential + h[d]) / n as f64;
        }
    }
    loss / n as f64
}

fn read(path: &Path) -> Result<Vec<f32>, Failure> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}
