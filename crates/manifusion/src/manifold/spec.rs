//! The string form of manifolds: `sphere:2`, `hyperbolic:2,K=-0.5`, `sphere:2*torus:3`,
//! `level:x^2+y^2-1`.

use std::sync::Arc;

use super::{
    Euclidean, Expressions, Hyperboloid, LevelSet, Manifold, Metric, Orthogonal, Product, Sphere,
    Stiefel, Torus,
};
use crate::error::SpecError;

/// The forms that [`parse`] understands, for messages and help texts.
pub const SPEC_FORMS: &str = "sphere:D, torus:D, hyperbolic:D or hyperbolic:D,K=-0.5,metric=lorentz, so:N, o:N, \
     stiefel:N,K, euclidean:D, level:EXPRESSION (such as level:x^2+y^2/4+z^2-1), and products such as \
     sphere:2*torus:3";

const NAMES: [&str; 8] =
    ["sphere", "torus", "hyperbolic", "so", "o", "stiefel", "euclidean", "level"];

/// Makes the manifold that a string describes.
pub fn parse(spec: &str) -> Result<Arc<dyn Manifold>, SpecError> {
    let mut factors = split_factors(spec).into_iter().map(factor).collect::<Result<Vec<_>, _>>()?;
    if factors.len() == 1 {
        return Ok(factors.remove(0));
    }
    Ok(Arc::new(Product::new(factors)?))
}

/// Splits at each `*` that is followed by `name:`; any other `*` belongs to an expression.
fn split_factors(spec: &str) -> Vec<&str> {
    let mut factors = Vec::new();
    let mut start = 0;
    for (at, _) in spec.match_indices('*') {
        let rest = spec[at + 1..].trim_start();
        let name: &str = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
        let expression = spec[start..at].trim_start().starts_with("level:");
        let starts_factor = !name.is_empty() && rest[name.len()..].trim_start().starts_with(':');
        if starts_factor || !expression {
            factors.push(&spec[start..at]);
            start = at + 1;
        }
    }
    factors.push(&spec[start..]);
    factors
}

fn factor(text: &str) -> Result<Arc<dyn Manifold>, SpecError> {
    let text = text.trim();
    let (name, rest) =
        text.split_once(':').map_or((text, None), |(n, r)| (n.trim(), Some(r.trim())));
    if !NAMES.contains(&name) {
        return Err(SpecError::UnknownName { name: name.to_string(), allowed: SPEC_FORMS });
    }
    let fields = Fields { text, rest };
    Ok(match name {
        "sphere" => Arc::new(Sphere::new(fields.number("sphere:D, such as sphere:2")?)?),
        "torus" => Arc::new(Torus::new(fields.number("torus:D, such as torus:7")?)?),
        "euclidean" => {
            Arc::new(Euclidean::new(fields.number("euclidean:D, such as euclidean:4")?)?)
        }
        "so" => Arc::new(Orthogonal::special(fields.number("so:N, such as so:3")?)?),
        "o" => Arc::new(Orthogonal::full(fields.number("o:N, such as o:3")?)?),
        "hyperbolic" => Arc::new(hyperbolic(&fields)?),
        "stiefel" => Arc::new(stiefel(&fields)?),
        _ => {
            let expected = "level:EXPRESSION, such as level:x^2+y^2/4+z^2-1";
            Arc::new(LevelSet::new(Expressions::parse(fields.rest(expected)?)?)?)
        }
    })
}

struct Fields<'a> {
    text: &'a str,
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn rest(&self, expected: &'static str) -> Result<&'a str, SpecError> {
        match self.rest {
            Some(rest) if !rest.is_empty() => Ok(rest),
            _ => Err(self.malformed("nothing stands after the name", expected)),
        }
    }

    fn malformed(&self, problem: impl Into<String>, expected: &'static str) -> SpecError {
        let spec = self.text.chars().take(80).collect();
        SpecError::Malformed { spec, problem: problem.into(), expected }
    }

    fn number(&self, expected: &'static str) -> Result<usize, SpecError> {
        self.parse_number(self.rest(expected)?, expected)
    }

    fn parse_number(&self, text: &str, expected: &'static str) -> Result<usize, SpecError> {
        let text = text.trim();
        text.parse()
            .map_err(|_| self.malformed(format!("'{text}' is not a whole number"), expected))
    }
}

fn hyperbolic(fields: &Fields<'_>) -> Result<Hyperboloid, SpecError> {
    let expected =
        "hyperbolic:D, with K=-0.5, metric=lorentz, metric=euclidean or pi=closest after commas";
    let mut parts = fields.rest(expected)?.split(',');
    let dim = fields.parse_number(parts.next().unwrap_or(""), expected)?;
    let (mut curvature, mut closest, mut metric) = (-1.0, false, Metric::Euclidean);
    let mut seen = Vec::new();
    for part in parts {
        let field = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        if let Some((key, _)) = field {
            if seen.contains(&key) {
                return Err(fields.malformed(format!("{key} is given twice"), expected));
            }
            seen.push(key);
        }
        match field {
            Some(("K", value)) => {
                curvature = value.parse().map_err(|_| {
                    fields.malformed(format!("'{value}' is not a number"), expected)
                })?;
            }
            Some(("pi", "closest")) => closest = true,
            Some(("metric", "lorentz")) => metric = Metric::Lorentz,
            Some(("metric", "euclidean")) => metric = Metric::Euclidean,
            _ => return Err(fields.malformed(format!("'{part}' is not understood"), expected)),
        }
    }
    if closest && metric == Metric::Lorentz {
        let problem = "pi=closest is the closest point of the Euclidean metric";
        return Err(fields.malformed(problem, expected));
    }
    let space = Hyperboloid::new(dim, curvature)?.with_metric(metric);
    Ok(if closest { space.with_closest_point() } else { space })
}

fn stiefel(fields: &Fields<'_>) -> Result<Stiefel, SpecError> {
    let expected = "stiefel:N,K with 1 ≤ K < N, such as stiefel:4,2";
    let Some((n, k)) = fields.rest(expected)?.split_once(',') else {
        return Err(fields.malformed("two numbers are needed", expected));
    };
    let (n, k) = (fields.parse_number(n, expected)?, fields.parse_number(k, expected)?);
    if n == k {
        // It has two components, and only the orthogonal group gives them weights.
        return Err(fields.malformed("K = N is the orthogonal group, o:N", expected));
    }
    Stiefel::new(n, k)
}
