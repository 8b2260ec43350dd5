//! A file as points of a manifold, and points as a file.

use manifusion::hash::sha256_hex;
use manifusion::manifold::Manifold;
use manifusion::points::Points;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::f64::consts::TAU;
use std::path::Path;
use std::sync::Arc;

use crate::error::{BadRows, DataError, IoError};
use crate::form::{
    Chosen, FactorForm, Form, Forms, TOLERANCE, canonical_names, choose, from_point, to_point,
    total_width,
};
use crate::table::{
    Column, FileFormat, Limits, Table, join_names, read_bytes, shortened, table_from_bytes,
    write_table,
};

/// What the user says about a file; everything may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The form, else guessed.
    pub form: Option<Forms>,
    /// The columns by name or number from 0, else by the form's names or all that hold numbers.
    pub columns: Option<Vec<String>>,
    /// The column whose equal values belong together in a split.
    pub group_by: Option<String>,
    /// Only rows in which this column has this value.
    pub filter: Option<(String, String)>,
}

/// All that is needed to write points as the input was written; kept in a run's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputForm {
    /// The form, or one per factor.
    pub form: Forms,
    /// The columns' names in the form's order; empty for the usual names.
    #[serde(default)]
    pub names: Vec<String>,
    /// The file format, for files whose name the program chooses.
    pub format: FileFormat,
}

/// Points read from a file.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// The points, with their groups if a column has them.
    pub points: Points,
    /// For each point its line (or row, of a binary file) from 1.
    pub lines: Vec<u64>,
    /// The columns that the coordinates came from, in the form's order.
    pub columns: Vec<usize>,
    /// How to write points in the same form.
    pub output: OutputForm,
    /// What was guessed about columns and form, and why.
    pub note: Option<String>,
    /// How far the farthest row was moved to lie on the manifold (at most about
    /// [`crate::TOLERANCE`]).
    pub largest_move: f64,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
}

impl Dataset {
    /// Points.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }
}

/// Reads the points of a manifold from a file.
pub fn load(
    path: &Path,
    manifold: &Arc<dyn Manifold>,
    options: &LoadOptions,
) -> Result<Dataset, IoError> {
    let limits = Limits::default();
    let bytes = read_bytes(path, &limits)?;
    let sha256 = sha256_hex(&bytes);
    table_from_bytes(path, bytes, &limits)
        .and_then(|table| dataset_from_table(table, manifold, options, sha256))
        .map_err(IoError::data(path))
}

/// The points of a table; `sha256` is that of the file it came from.
pub fn dataset_from_table(
    mut table: Table,
    manifold: &Arc<dyn Manifold>,
    options: &LoadOptions,
    sha256: String,
) -> Result<Dataset, DataError> {
    let mut reserved = Vec::new();
    if let Some((column, value)) = &options.filter {
        reserved.push(filter(&mut table, column, value)?);
    }
    let groups = match &options.group_by {
        None => None,
        Some(name) => {
            let index = table.find(name)?;
            reserved.push(index);
            Some(table.texts(index)?)
        }
    };
    let picked = match &options.columns {
        None => None,
        Some(names) => {
            Some(names.iter().map(|name| table.find(name.trim())).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let geometry = manifold.as_ref();
    let chosen = choose(&table, geometry, options.form.as_ref(), picked.as_deref(), &reserved)?;
    let (coordinates, largest_move) = convert(&table, geometry, &chosen)?;
    let mut points = Points::on(Arc::clone(manifold), coordinates)?;
    if let Some(groups) = groups {
        points = points.with_groups(groups)?;
    }
    let names = if table.has_header {
        chosen.columns.iter().map(|&i| table.columns[i].name.clone()).collect()
    } else {
        Vec::new()
    };
    Ok(Dataset {
        points,
        output: OutputForm { form: chosen.forms, names, format: table.format },
        lines: table.lines,
        columns: chosen.columns,
        note: chosen.note,
        largest_move,
        sha256,
    })
}

/// Keeps the rows whose field is the value, as text or as a number; returns the column.
fn filter(table: &mut Table, column: &str, value: &str) -> Result<usize, DataError> {
    let index = table.find(column)?;
    let texts = table.texts(index)?;
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let wanted = number(value);
    // 1 and 1.0 are the same number, whichever the file has.
    let matches = |text: &String| text == value || (wanted.is_some() && number(text) == wanted);
    let keep: Vec<bool> = texts.iter().map(matches).collect();
    if !keep.contains(&true) {
        let mut seen = HashSet::new();
        let examples: Vec<&str> =
            texts.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        return Err(DataError::FilterEmpty {
            column: column.to_owned(),
            value: shortened(value),
            examples: join_names(examples.into_iter()),
        });
    }
    table.retain(&keep);
    Ok(index)
}

/// The points, and the largest distance that one was moved.
fn convert(
    table: &Table,
    manifold: &dyn Manifold,
    chosen: &Chosen,
) -> Result<(Vec<f64>, f64), DataError> {
    let parts = chosen.forms.parts(manifold)?;
    let columns: Vec<Vec<f64>> =
        chosen.columns.iter().map(|&i| table.numbers(i)).collect::<Result<_, _>>()?;
    let width = manifold.ambient_dim();
    let mut points = vec![0.0; table.rows() * width];
    let mut row = vec![0.0; columns.len()];
    let mut bad = BadRows {
        place: table.format.place(),
        first: Vec::new(),
        total: 0,
        rows: table.rows(),
        hint: None,
    };
    let mut largest_move = 0f64;
    for (index, point) in points.chunks_exact_mut(width).enumerate() {
        for (value, column) in row.iter_mut().zip(&columns) {
            *value = column[index];
        }
        match row_to_point(&parts, &row, point) {
            Ok(moved) => largest_move = largest_move.max(moved),
            Err(problem) => {
                bad.total += 1;
                if bad.first.len() < BadRows::NAMED {
                    bad.first.push((table.lines[index], problem));
                }
            }
        }
    }
    if bad.total > 0 {
        bad.hint = probable_cause(&parts, &columns);
        return Err(DataError::Rows(bad));
    }
    Ok((points, largest_move))
}

fn row_to_point(parts: &[FactorForm<'_>], row: &[f64], point: &mut [f64]) -> Result<f64, String> {
    if let Some(value) = row.iter().find(|v| !v.is_finite()) {
        return Err(format!("{value} is not a finite number"));
    }
    let (mut column, mut coordinate, mut largest) = (0, 0, 0f64);
    for part in parts {
        let (columns, coordinates) = (part.width(), part.manifold.ambient_dim());
        let own = &row[column..column + columns];
        let target = &mut point[coordinate..coordinate + coordinates];
        largest = largest.max(to_point(part.form, part.manifold, own, target)?);
        column += columns;
        coordinate += coordinates;
    }
    Ok(largest)
}

const SWAPPED: &str = "are latitude and longitude swapped?";

/// What usually causes such rows, if the numbers speak for it.
fn probable_cause(parts: &[FactorForm<'_>], columns: &[Vec<f64>]) -> Option<String> {
    let [part] = parts else { return None };
    let within = |column: &Vec<f64>, limit: f64| column.iter().all(|v| v.abs() <= limit);
    let all_within = |limit: f64| columns.iter().all(|column| within(column, limit));
    match part.form {
        Form::LatLon if within(&columns[1], 90.0) && within(&columns[0], 360.0) => {
            Some(SWAPPED.to_owned())
        }
        Form::LonLat if within(&columns[0], 90.0) && within(&columns[1], 360.0) => {
            Some(SWAPPED.to_owned())
        }
        Form::AnglesRad if all_within(360.0) => {
            Some("the angles seem to be in degrees (--as angles-deg)".to_owned())
        }
        Form::EulerRad if all_within(360.0) => {
            Some("the angles seem to be in degrees (--as euler)".to_owned())
        }
        Form::Rotvec if all_within(360.0) => Some("the angle seems to be in degrees".to_owned()),
        Form::Polar if within(&columns[1], 360.0) && !within(&columns[1], TAU + TOLERANCE) => {
            Some("the angle seems to be in degrees".to_owned())
        }
        Form::Xyz => common_length(columns)
            .map(|length| format!("every row has the length {length:.6}: divide by it")),
        _ => None,
    }
}

/// The length that all rows have within a thousandth, if there is one.
fn common_length(columns: &[Vec<f64>]) -> Option<f64> {
    let length = |row: usize| columns.iter().map(|c| c[row] * c[row]).sum::<f64>().sqrt();
    let rows = columns.first()?.len();
    let first = length(0);
    let equal = (0..rows).all(|row| (length(row) - first).abs() <= TOLERANCE * first);
    (rows > 1 && first > 0.0 && equal).then_some(first)
}

/// Writes points in a form, with further columns such as `log_density` after the coordinates; the
/// format is that of the path's extension.
pub fn save(
    path: &Path,
    points: &[f64],
    manifold: &dyn Manifold,
    output: &OutputForm,
    extra: &[Column],
) -> Result<(), IoError> {
    let mut columns = point_columns(points, manifold, output).map_err(IoError::data(path))?;
    columns.extend_from_slice(extra);
    write_table(path, &columns)
}

/// The columns of points in a form.
pub fn point_columns(
    points: &[f64],
    manifold: &dyn Manifold,
    output: &OutputForm,
) -> Result<Vec<Column>, DataError> {
    let width = manifold.ambient_dim();
    if !points.len().is_multiple_of(width) {
        return Err(DataError::PointWidth { found: points.len(), width });
    }
    let parts = output.form.parts(manifold)?;
    let total = total_width(&parts);
    let names =
        if output.names.len() == total { output.names.clone() } else { canonical_names(&parts) };
    let mut values = vec![Vec::with_capacity(points.len() / width); total];
    let mut row = vec![0.0; total];
    for point in points.chunks_exact(width) {
        let (mut column, mut coordinate) = (0, 0);
        for part in &parts {
            let (columns, coordinates) = (part.width(), part.manifold.ambient_dim());
            let own = &point[coordinate..coordinate + coordinates];
            from_point(part.form, part.manifold, own, &mut row[column..column + columns]);
            column += columns;
            coordinate += coordinates;
        }
        for (column, value) in values.iter_mut().zip(&row) {
            column.push(*value);
        }
    }
    Ok(names.into_iter().zip(values).map(|(name, v)| Column::numbers(name, v)).collect())
}
