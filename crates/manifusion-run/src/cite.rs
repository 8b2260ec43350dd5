//! What to cite for a run.

use manifusion::methods::Reference;

use crate::error::RunError;
use crate::stored::StoredRun;

/// This program; the facts are those of `CITATION.cff`.
pub const MANIFUSION: Reference = Reference {
    key: "manifusion",
    bibtex: concat!(
        "@misc{manifusion,\n",
        "  title = {Manifusion},\n",
        "  author = {{Manifusion contributors}},\n",
        "  note = {Version ",
        env!("CARGO_PKG_VERSION"),
        "},\n",
        "}"
    ),
};

/// The publications behind a run, each once: those of its method, those of the members of its model
/// where it has any, and this program. Before its model is there, a run has no members yet.
pub fn references(run: &StoredRun) -> Result<Vec<Reference>, RunError> {
    let mut all = run.settings().method()?.info().references.to_vec();
    if run.is_finished() {
        let model = run.model()?;
        let members = model.members().iter();
        all.extend(members.flat_map(|member| member.model.info().references));
    }
    all.push(MANIFUSION);
    let mut once: Vec<Reference> = Vec::new();
    for reference in all {
        if once.iter().all(|before| before.key != reference.key) {
            once.push(reference);
        }
    }
    Ok(once)
}
