//! The trained model of a run's folder, ready to be evaluated and sampled.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use manifusion::density::Density;
use manifusion::field::Field;
use manifusion::likelihood::OdeLikelihoodOptions;
use manifusion::manifold::Manifold;
use manifusion::mixture::{Guide, KernelMixture};
use manifusion::model::Diffusion;
use manifusion::ode::OdeOptions;
use manifusion::ode_density::OdeDensity;
use manifusion::prior::Prior;
use manifusion::sample::{SampleOptions, Steps};
use manifusion::train::Parts;

use crate::run::{RunDir, geometry};
use crate::settings::{GuideKind, Method, Settings};

/// What a folder holds once its run is done.
pub(crate) struct TrainedModel {
    pub(crate) settings: Settings,
    pub(crate) manifold: Arc<dyn Manifold>,
    pub(crate) prior: Arc<dyn Prior>,
    /// The kernel mixture on the same training points, where one is known.
    pub(crate) kernel: Option<Arc<KernelMixture>>,
    /// The mixture with local weights that guides the network, in a guided run.
    pub(crate) guide: Option<Arc<KernelMixture>>,
    /// The diffusion model; none for the kernel method.
    pub(crate) diffusion: Option<Diffusion>,
}

impl TrainedModel {
    pub(crate) fn load(dir: &RunDir) -> Result<Self> {
        let settings = dir.settings()?;
        let (manifold, prior) = geometry(&settings)?;
        if !dir.has("model.safetensors") {
            bail!(
                "{} has no model yet: its run was not finished; go on with 'manifusion resume {}'",
                dir.path().display(),
                dir.path().display()
            );
        }
        let kernel_file = match settings.method {
            Method::Kernel => "model.safetensors",
            Method::Rdm => "kernel.safetensors",
        };
        let kernel = if dir.has(kernel_file) {
            Some(Arc::new(read_kernel(dir, kernel_file)?))
        } else {
            None
        };
        let mut guiding = None;
        let diffusion = match settings.method {
            Method::Kernel => None,
            Method::Rdm => {
                let net = Arc::new(dir.checkpoint("model.safetensors")?.net);
                let need = |name| format!("the run's configuration has no {name}");
                let s_min = settings.model.s_min.with_context(|| need("model.s_min"))?;
                if settings.model.guide == Some(GuideKind::Kernel) {
                    guiding = Some(Arc::new(read_kernel(dir, GUIDE)?));
                }
                let guide = guiding.as_ref().map(|mixture| Guide::new(mixture, None, s_min));
                let guide = guide.transpose()?.map(|guide| Arc::new(guide) as Arc<dyn Field>);
                let s_from = settings.model.s_from.with_context(|| need("model.s_from"))?;
                let parts = Parts {
                    manifold: Arc::clone(&manifold),
                    prior: Arc::clone(&prior),
                    net,
                    guide,
                    s_min,
                    s_from,
                    t_end: settings.model.t_end.with_context(|| need("model.t_end"))?,
                    log_coordinates: settings.net.log_coordinates.unwrap_or(false),
                    prior_score: settings.model.prior_score.unwrap_or(false),
                };
                Some(parts.assemble())
            }
        };
        Ok(Self { settings, manifold, prior, kernel, guide: guiding, diffusion })
    }

    /// How the likelihood is computed.
    pub(crate) fn likelihood(&self) -> OdeLikelihoodOptions {
        Self::likelihood_to(self.settings.evaluate.tolerance)
    }

    fn likelihood_to(tolerance: f64) -> OdeLikelihoodOptions {
        let ode = OdeOptions { rtol: tolerance, atol: tolerance, ..OdeOptions::default() };
        OdeLikelihoodOptions { ode, ..OdeLikelihoodOptions::default() }
    }

    /// The method's density, with these options for samples of a diffusion model.
    pub(crate) fn density(&self, sampling: SampleOptions) -> Result<Arc<dyn Density>> {
        self.density_by(self.likelihood(), sampling)
    }

    /// The same to fewer digits, for pictures.
    pub(crate) fn rough_density(&self) -> Result<Arc<dyn Density>> {
        let likelihood = Self::likelihood_to(self.settings.evaluate.tolerance.max(1e-3));
        let sampling =
            SampleOptions { steps: Steps::Fixed { level: 7 }, ..SampleOptions::default() };
        self.density_by(likelihood, sampling)
    }

    fn density_by(
        &self,
        likelihood: OdeLikelihoodOptions,
        sampling: SampleOptions,
    ) -> Result<Arc<dyn Density>> {
        match (&self.diffusion, &self.kernel) {
            (Some(model), _) => {
                Ok(Arc::new(OdeDensity { model: model.clone(), likelihood, sampling }))
            }
            (None, Some(kernel)) => Ok(Arc::clone(kernel) as Arc<dyn Density>),
            (None, None) => bail!("the run holds no model"),
        }
    }
}

/// The file of the mixture that guides a network.
pub(crate) const GUIDE: &str = "guide.safetensors";

/// A mixture from its file.
pub(crate) fn read_kernel(dir: &RunDir, name: &str) -> Result<KernelMixture> {
    let (manifold, prior) = geometry(&dir.settings()?)?;
    let arrays = dir.arrays(name)?;
    KernelMixture::from_tensors(manifold, prior, &arrays.arrays)
        .with_context(|| dir.file(name).display().to_string())
}
