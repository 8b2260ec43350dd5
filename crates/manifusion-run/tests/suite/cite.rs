//! What to cite for a run.

use manifusion::methods::METHODS;
use manifusion_run::{MANIFUSION, StoredRun, references};

use crate::{SMALL, train_in};

#[test]
fn a_run_cites_its_method_its_members_and_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |name: &str, settings: &[&str]| {
        let out = folder.path().join(name);
        train_in(&out, settings);
        let found = references(&StoredRun::open(&out).unwrap()).unwrap();
        found.iter().map(|reference| reference.key).collect::<Vec<_>>()
    };
    let of = |name: &str| {
        let method = METHODS.iter().find(|method| method.info().name == name).unwrap();
        method.info().references.iter().map(|reference| reference.key).collect::<Vec<_>>()
    };
    let kent = keys("kent", &[&SMALL[1..3], &["method=kent", "components=2"]].concat());
    assert_eq!(kent, [of("kent"), vec!["manifusion"]].concat());
    // Its networks are of the method that the stack names itself: each entry once.
    let stack = keys("stack", &[&SMALL[..], &["method=stack", "members=1"]].concat());
    for key in [of("stack"), of("rdm"), of("kernel"), vec!["manifusion"]].concat() {
        assert_eq!(stack.iter().filter(|other| **other == key).count(), 1, "{key}: {stack:?}");
    }
}

/// `CITATION.cff` and the entry say the same.
#[test]
fn the_programs_entry_has_the_facts_of_the_citation_file() {
    let file = include_str!("../../../../CITATION.cff");
    let fact = |start: &str| {
        let line = file.lines().find_map(|line| line.trim().strip_prefix(start));
        line.unwrap_or_else(|| panic!("{start} is missing")).trim()
    };
    for expected in [
        format!("title = {{{}}}", fact("title:")),
        format!("author = {{{{{}}}}}", fact("- name:")),
        format!("note = {{Version {}}}", fact("version:")),
    ] {
        assert!(MANIFUSION.bibtex.contains(&expected), "{expected}\n{}", MANIFUSION.bibtex);
    }
}
