//! The extension module of the Python package `manifusion`: arrays in, arrays out. What is learned,
//! read and drawn is the library's; the classes that users see are in `lib/manifusion`.

mod comparison;
mod custom;
mod errors;
mod manifold;
mod pictures;
mod run;
mod table;
mod work;

use manifusion::manifold::SPEC_FORMS;
use manifusion::methods::{METHODS, Setting};
use manifusion_io::Form;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Arrays in, arrays out; use the classes of `manifusion` instead.
#[pymodule]
mod _native {
    use super::PyResult;

    #[pymodule_export]
    use super::comparison::{compare_check, compare_run, compare_table};
    #[pymodule_export]
    use super::manifold::Manifold;
    #[pymodule_export]
    use super::methods;
    #[pymodule_export]
    use super::pictures::{contours, geojson, grid, html, plot};
    #[pymodule_export]
    use super::run::Run;

    #[pymodule_init]
    fn init(module: &super::Bound<'_, super::PyModule>) -> PyResult<()> {
        super::constants(module)
    }
}

fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use pyo3::types::PyModuleMethods;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MANIFOLDS", SPEC_FORMS)?;
    module.add("FORMS", Form::ALL.map(Form::name).to_vec())
}

/// The registry of methods: a dictionary for each, the default first.
#[pyfunction]
fn methods(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for method in METHODS {
        let info = method.info();
        let entry = PyDict::new(py);
        entry.set_item("name", info.name)?;
        entry.set_item("title", info.title)?;
        entry.set_item("help", info.help)?;
        entry.set_item("manifolds", info.manifolds)?;
        let of = |setting: &Setting| (setting.name, setting.kind, setting.help);
        let settings: Vec<_> = info.settings.iter().copied().flatten().map(of).collect();
        entry.set_item("settings", settings)?;
        let references: Vec<_> = info.references.iter().map(|r| r.bibtex).collect();
        entry.set_item("references", references)?;
        list.append(entry)?;
    }
    Ok(list)
}
