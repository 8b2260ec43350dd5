//! The names of columns: what is recognised, and what is written.

use manifusion::manifold::{Family, Manifold};
use std::collections::HashSet;

use super::{FactorForm, Form};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Degrees,
    Radians,
}

/// A name in lower case without its unit, with synonyms of latitude and longitude made one, and the
/// unit if the name says it.
pub(super) fn normalised(name: &str) -> (String, Option<Unit>) {
    let lower = name.trim().to_lowercase();
    let (base, bracket) = match lower.split_once(['(', '[']) {
        Some((base, rest)) => (base.trim(), rest.trim_end_matches([')', ']']).trim()),
        None => (lower.as_str(), ""),
    };
    let mut unit = match bracket {
        "deg" | "degree" | "degrees" | "°" => Some(Unit::Degrees),
        "rad" | "radian" | "radians" => Some(Unit::Radians),
        _ => None,
    };
    let mut base = base;
    for (suffix, found) in [
        ("_deg", Unit::Degrees),
        ("_degrees", Unit::Degrees),
        ("_rad", Unit::Radians),
        ("_radians", Unit::Radians),
    ] {
        if let Some(rest) = base.strip_suffix(suffix) {
            (base, unit) = (rest, Some(found));
        }
    }
    let base = match base {
        "latitude" | "dec" | "decl" | "declination" => "lat",
        "longitude" | "lng" | "long" | "ra" | "right_ascension" => "lon",
        other => other,
    };
    (base.to_owned(), unit)
}

/// Whether a name is one that angles usually have.
pub(super) fn is_angle_name(base: &str) -> bool {
    let stem = base.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    matches!(
        stem,
        "phi"
            | "psi"
            | "omega"
            | "theta"
            | "alpha"
            | "beta"
            | "gamma"
            | "delta"
            | "epsilon"
            | "zeta"
            | "chi"
            | "eta"
            | "tau"
            | "angle"
    )
}

/// The lists of names (in the form's order) by which its columns are recognised; the first is what
/// is written.
pub(super) fn patterns(form: Form, manifold: &dyn Manifold) -> Vec<Vec<String>> {
    let fixed = |lists: &[&[&str]]| -> Vec<Vec<String>> {
        lists.iter().map(|list| list.iter().map(|n| (*n).to_owned()).collect()).collect()
    };
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let numbered = |prefix: &str, from: usize, count: usize| -> Vec<String> {
        (from..from + count).map(|i| format!("{prefix}{i}")).collect()
    };
    match form {
        Form::LatLon => fixed(&[&["lat", "lon"]]),
        Form::LonLat => fixed(&[&["lon", "lat"]]),
        Form::Xyz => fixed(&[&["x", "y", "z"]]),
        Form::AnglesDeg | Form::AnglesRad => vec![numbered("theta", 1, d)],
        Form::Quaternion => fixed(&[
            &["qw", "qx", "qy", "qz"],
            &["w", "x", "y", "z"],
            &["q_w", "q_x", "q_y", "q_z"],
            &["quat_w", "quat_x", "quat_y", "quat_z"],
        ]),
        Form::QuaternionXyzw => {
            let mut lists = patterns(Form::Quaternion, manifold);
            for list in &mut lists {
                list.rotate_left(1);
            }
            lists
        }
        Form::Matrix => matrix_patterns(m),
        Form::Euler | Form::EulerRad => {
            fixed(&[&["phi1", "Phi", "phi2"], &["euler1", "euler2", "euler3"]])
        }
        Form::Rotvec => fixed(&[
            &["rx", "ry", "rz"],
            &["rotvec_x", "rotvec_y", "rotvec_z"],
            &["rotvec1", "rotvec2", "rotvec3"],
        ]),
        Form::Lorentz => {
            let mut lists = vec![numbered("x", 0, m)];
            let space = ["t", "x", "y", "z"];
            if m <= space.len() {
                lists.extend(fixed(&[&space[..m]]));
            }
            lists
        }
        Form::Poincare => {
            let mut lists = vec![numbered("p", 1, d)];
            if d == 2 {
                lists.extend(fixed(&[&["px", "py"], &["poincare_x", "poincare_y"]]));
            }
            lists
        }
        Form::Polar => {
            fixed(&[&["r", "theta"], &["r", "phi"], &["radius", "theta"], &["rho", "theta"]])
        }
        Form::Ambient => vec![match manifold.family() {
            Family::Torus { dim } => {
                (1..=dim).flat_map(|i| [format!("cos{i}"), format!("sin{i}")]).collect()
            }
            _ => numbered("x", 1, m),
        }],
    }
}

/// r11, r12, … and the other ways to number a square matrix.
fn matrix_patterns(entries: usize) -> Vec<Vec<String>> {
    let n = entries.isqrt();
    let list = |prefix: &str, first: usize, separator: &str| -> Vec<String> {
        let index = |i: usize| i + first;
        (0..n)
            .flat_map(|i| (0..n).map(move |j| (index(i), index(j))))
            .map(|(i, j)| format!("{prefix}{i}{separator}{j}"))
            .collect()
    };
    let mut lists = Vec::new();
    for prefix in ["r", "m", "r_", "m_"] {
        for first in [1, 0] {
            if n < 10 {
                lists.push(list(prefix, first, ""));
            }
            lists.push(list(prefix, first, "_"));
        }
    }
    lists
}

/// The columns that carry a form's names in some pattern, in the form's order, if each name occurs
/// once.
pub(super) fn find_by_name(
    part: FactorForm<'_>,
    columns: &[(usize, String)],
) -> Option<Vec<usize>> {
    patterns(part.form, part.manifold).iter().find_map(|pattern| {
        pattern
            .iter()
            .map(|name| {
                let name = name.to_lowercase();
                let mut found = columns.iter().filter(|(_, column)| *column == name);
                match (found.next(), found.next()) {
                    (Some((index, _)), None) => Some(*index),
                    _ => None,
                }
            })
            .collect()
    })
}

/// The names under which the parts are written, made distinct by the factor's number where two are
/// equal.
pub(crate) fn canonical_names(parts: &[FactorForm<'_>]) -> Vec<String> {
    let own: Vec<Vec<String>> = parts
        .iter()
        .map(|part| patterns(part.form, part.manifold).into_iter().next().unwrap_or_default())
        .collect();
    let mut seen = HashSet::new();
    let repeated = own.iter().flatten().any(|name| !seen.insert(name));
    own.iter()
        .enumerate()
        .flat_map(|(factor, names)| {
            names.iter().map(
                move |name| {
                    if repeated { format!("{name}_{}", factor + 1) } else { name.clone() }
                },
            )
        })
        .collect()
}
