//! A learned mixture of power spherical distributions.

use std::sync::Arc;

use serde_json::Value as Json;

use super::components::{Components, Packed};
use super::{INFO, MopsSettings};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::error::{ShapeError, SolveError};
use crate::manifold::Manifold;
use crate::methods::{
    FileMap, Files, FitError, Fitted, Geometry, MODEL_FILE, MethodInfo, write_settings,
};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut, expect_len};
use crate::sample::SampleOptions;

/// The mixture as a density.
#[derive(Clone, Debug)]
pub(super) struct MopsDensity {
    manifold: Arc<dyn Manifold>,
    components: Components,
    packed: Packed,
}

impl MopsDensity {
    pub(super) fn new(manifold: Arc<dyn Manifold>, components: Components) -> Self {
        let packed = components.packed();
        Self { manifold, components, packed }
    }

    fn draw(&self, n: usize, first_row: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        if n == 0 {
            return Err(ShapeError::Empty.into());
        }
        let m = self.manifold.ambient_dim();
        let mut drawn = vec![0.0; n * m];
        let streams = Streams::new(seed, "mops-draws");
        for (i, x) in RowsMut::new(&mut drawn, m)?.rows_mut().enumerate() {
            self.components.sample(&mut streams.stream((first_row + i) as u64, 0), x);
        }
        Ok(drawn)
    }
}

impl Density for MopsDensity {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        x.expect_width(self.manifold.ambient_dim())?;
        self.packed.log_density(x)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.draw(n, 0, seed)
    }
}

/// The mixture with what it was learned by.
#[derive(Debug)]
pub(super) struct FittedMops {
    geometry: Geometry,
    settings: MopsSettings,
    density: MopsDensity,
}

impl FittedMops {
    pub(super) fn new(geometry: Geometry, settings: MopsSettings, components: Components) -> Self {
        let density = MopsDensity::new(Arc::clone(&geometry.manifold), components);
        Self { geometry, settings, density }
    }

    /// From what [`Fitted::files`] has written, with the blocks of the manifold.
    pub(super) fn load(
        geometry: Geometry,
        settings: MopsSettings,
        blocks: Vec<usize>,
        files: &dyn Files,
    ) -> Result<Self, FitError> {
        let bytes = files.need(MODEL_FILE)?;
        let damaged = |source| FitError::File { name: MODEL_FILE.to_owned(), source };
        let mut arrays = Arrays::from_bytes(&bytes).map_err(damaged)?.arrays;
        let mut array = |name: &str, per_component: usize| -> Result<Vec<f64>, FitError> {
            let found = arrays.remove(name).unwrap_or_default();
            expect_len(found.len(), settings.components * per_component)?;
            Ok(found)
        };
        let weights = array("weights", 1)?;
        let means = array("means", blocks.iter().sum())?;
        let concentrations = array("concentrations", blocks.len())?;
        let components = Components { blocks, weights, means, concentrations };
        Ok(Self::new(geometry, settings, components))
    }
}

impl Density for FittedMops {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.density.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.density.log_density(x)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.density.sample(n, seed)
    }
}

impl Fitted for FittedMops {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        let Components { weights, means, concentrations, .. } = self.density.components.clone();
        let mut arrays = Arrays::default();
        arrays.arrays.insert("weights".to_owned(), weights);
        arrays.arrays.insert("means".to_owned(), means);
        arrays.arrays.insert("concentrations".to_owned(), concentrations);
        Ok(FileMap::from([(MODEL_FILE.to_owned(), arrays.to_bytes()?)]))
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.geometry.prior
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        self.density.draw(n, options.first_row, options.seed)
    }

    /// Weights, of which one follows from the others, unit vectors and concentrations.
    fn parameters(&self) -> Option<usize> {
        let Components { weights, means, .. } = &self.density.components;
        // A unit vector has a number less than coordinates, and comes with a concentration.
        Some(weights.len() - 1 + means.len())
    }

    /// The mixture with wider components: one checked by itself would have mass one whatever it is.
    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        let manifold = Arc::clone(&self.geometry.manifold);
        Ok(Some(Arc::new(MopsDensity::new(manifold, self.density.components.widened()))))
    }
}
