//! What a user writes, and what becomes of it.

use manifusion::methods::METHODS;
use manifusion_run::{Config, RunError, RunSettings};
use serde_json::json;

fn sentence(config: Config) -> String {
    config.choices().unwrap_err().to_string()
}

#[test]
fn settings_stand_in_the_section_of_their_method() {
    let text = "seed = 3\nmethod = \"rdm\"\n[train]\nbatch = 7\n[rdm.net]\nwidth = 64\n[kernel]\nlocal_weights = true\n";
    let choices = Config::parse(text).unwrap().choices().unwrap();
    assert_eq!(choices.method, "rdm");
    let default = Config::default().choices().unwrap();
    assert_eq!(default.method, METHODS[0].info().name);
    assert_eq!(choices.seed, 3);
    // A key without a method's name belongs to the chosen one; other methods' sections are theirs.
    assert_eq!(choices.section, json!({ "train": { "batch": 7 }, "net": { "width": 64 } }));

    let mut config = Config::parse(text).unwrap();
    config.put("method", "kernel");
    let choices = config.choices().unwrap();
    assert_eq!(choices.section, json!({ "local_weights": true }));
    assert_eq!(choices.remarks, ["train.batch is no setting of method kernel and has no effect"]);
}

#[test]
fn what_comes_later_counts() {
    let mut config = Config::parse("method = \"rdm\"\n[train]\nbatch = 7\nsteps = 5\n").unwrap();
    config.set("train.batch=9").unwrap();
    config.set("rdm.net.width = 32").unwrap();
    config.leave_open("train.steps");
    let section = config.choices().unwrap().section;
    assert_eq!(section, json!({ "train": { "batch": 9 }, "net": { "width": 32 } }));
    // The long form of a file has precedence over the short one.
    let both = Config::parse("[train]\nbatch = 7\n[stack.train]\nbatch = 8\n").unwrap();
    assert_eq!(both.choices().unwrap().section, json!({ "train": { "batch": 8 } }));
    // Leaving open what another method has is no remark.
    let mut kernel = Config::parse("method = \"kernel\"").unwrap();
    kernel.leave_open("train.steps");
    assert!(kernel.choices().unwrap().remarks.is_empty());
}

/// What a run of format 3 was trained with is what it goes on with.
#[test]
fn runs_of_format_3_keep_their_optimiser_and_smoothing() {
    let text = "method = \"stack\"\n[stack]\nmembers = 2\n[stack.train]\nema = 0.999\n";
    let section = |format: &str| {
        Config::parse(&format!("{format}{text}")).unwrap().choices().unwrap().section
    };
    let old = section("format = 3\n");
    assert_eq!(old["train"]["optimiser"], "adam");
    assert_eq!(old["smoothing_ratio"], 1.0);
    let open = json!({ "members": 2, "train": { "ema": 0.999 } });
    assert_eq!(section("format = 4\n"), open);
    assert_eq!(section(""), open);
}

#[test]
fn mistakes_are_said_in_one_sentence() {
    let parse = |text: &str| Config::parse(text).unwrap();
    let names: Vec<&str> = METHODS.iter().map(|method| method.info().name).collect();
    assert_eq!(
        sentence(parse("method = \"forest\"")),
        format!("unknown method 'forest'; allowed: {}", names.join(", "))
    );
    assert!(sentence(parse("[train]\nbatchsize = 3")).contains("unknown field `batchsize`"));
    assert!(sentence(parse("colour = 3")).contains("unknown field `colour`"));
    assert_eq!(
        sentence(parse("format = 9")),
        "the configuration has format 9, this program reads up to 4; update it"
    );
    assert_eq!(
        sentence(parse("[model]\nlocal_weights = true")),
        "model.local_weights is a setting of --method kernel, not of --method stack"
    );
    assert_eq!(
        sentence(parse("[train]\nclip = inf")),
        "stack.train.clip = inf is not allowed; a finite number"
    );
    assert!(matches!(RunSettings::parse("method = \"kernel\""), Err(RunError::NotGiven(_))));
}
