//! Which columns are the point, and in which form: as told, by their names, or by what alone fits
//! the numbers.

use manifusion::manifold::Manifold;
use std::f64::consts::TAU;

use super::names::{Unit, find_by_name, is_angle_name, normalised, patterns};
use super::{FactorForm, Form, Forms, TOLERANCE, to_point, total_width};
use crate::error::DataError;
use crate::table::{Table, Values, join_names};

/// The form and the columns, in the form's order.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) forms: Forms,
    pub(crate) columns: Vec<usize>,
    /// What was guessed and why; nothing if it was told.
    pub(crate) note: Option<String>,
}

/// Chooses among a table's columns without those in `reserved` (the groups, the filter).
pub(crate) fn choose(
    table: &Table,
    manifold: &dyn Manifold,
    told: Option<&Forms>,
    picked: Option<&[usize]>,
    reserved: &[usize],
) -> Result<Chosen, DataError> {
    let open: Vec<usize> = match picked {
        Some(picked) => picked.to_vec(),
        None => (0..table.columns.len()).filter(|i| !reserved.contains(i)).collect(),
    };
    let numeric = |index: &usize| matches!(table.columns[*index].values, Values::Numbers(_));
    let pool: Vec<usize> = match picked {
        Some(picked) => picked.to_vec(),
        None => open.iter().copied().filter(numeric).collect(),
    };
    let names = open.iter().map(|&i| (i, normalised(&table.columns[i].name).0)).collect();
    let choice = Choice { table, manifold, open, pool, names, exact: picked.is_some() };
    let mut chosen = match told {
        Some(forms) => choice.as_told(forms)?,
        None if !manifold.factors().is_empty() => choice.product()?,
        None => choice.guess()?,
    };
    if let Some(note) = &mut chosen.note {
        let unused = |i: &usize| !chosen.columns.contains(i);
        let ignored: Vec<usize> = choice.open.iter().copied().filter(unused).collect();
        if !ignored.is_empty() {
            *note = format!("{note}; not used: {}", choice.list(&ignored));
        }
    }
    Ok(chosen)
}

struct Choice<'a> {
    table: &'a Table,
    manifold: &'a dyn Manifold,
    /// Columns that may be used.
    open: Vec<usize>,
    /// Those of them that hold numbers, or that were picked.
    pool: Vec<usize>,
    /// The open columns' normalised names.
    names: Vec<(usize, String)>,
    /// Whether all of the pool must be used.
    exact: bool,
}

impl Choice<'_> {
    fn list(&self, columns: &[usize]) -> String {
        join_names(columns.iter().map(|&i| self.table.columns[i].name.as_str()))
    }

    /// The columns of a form that was told: by name, else all of the pool in order.
    fn as_told(&self, forms: &Forms) -> Result<Chosen, DataError> {
        let parts = forms.parts(self.manifold)?;
        let chosen = |columns| Chosen { forms: forms.clone(), columns, note: None };
        if let ([part], false) = (&parts[..], self.exact)
            && let Some(columns) = self.named(*part)
        {
            return Ok(chosen(columns));
        }
        if self.pool.len() != total_width(&parts) {
            return Err(DataError::ColumnCount {
                form: forms.to_string(),
                manifold: self.manifold.name(),
                expected: total_width(&parts),
                found: self.pool.len(),
                columns: self.list(&self.pool),
            });
        }
        let mut columns = Vec::with_capacity(self.pool.len());
        for part in &parts {
            let own = &self.pool[columns.len()..columns.len() + part.width()];
            columns.extend(self.in_order(*part, own));
        }
        Ok(chosen(columns))
    }

    /// The part's columns by name, if the file names them.
    fn named(&self, part: FactorForm<'_>) -> Option<Vec<usize>> {
        match part.form {
            Form::AnglesDeg | Form::AnglesRad => self.angle_columns(part.width()),
            _ => find_by_name(part, &self.names),
        }
    }

    /// These columns in the order that their names say, else as they are.
    fn in_order(&self, part: FactorForm<'_>, columns: &[usize]) -> Vec<usize> {
        let names: Vec<_> =
            self.names.iter().filter(|(index, _)| columns.contains(index)).cloned().collect();
        match find_by_name(part, &names) {
            Some(ordered) if ordered.len() == columns.len() => ordered,
            _ => columns.to_vec(),
        }
    }

    /// `count` columns whose names are those of angles.
    fn angle_columns(&self, count: usize) -> Option<Vec<usize>> {
        let angles: Vec<usize> =
            self.names.iter().filter(|(_, base)| is_angle_name(base)).map(|(i, _)| *i).collect();
        (angles.len() == count).then_some(angles)
    }

    /// Of a product only the ambient coordinates are recognised.
    fn product(&self) -> Result<Chosen, DataError> {
        let part = FactorForm { form: Form::Ambient, manifold: self.manifold };
        if self.pool.len() == part.width() {
            let why = "the number of columns is that of the product's own coordinates";
            return Ok(self.guessed(Form::Ambient, self.in_order(part, &self.pool), why));
        }
        let per_factor: Vec<_> =
            self.manifold.factors().iter().map(|f| Form::of(f.as_ref())[0].name()).collect();
        Err(DataError::NoForm {
            columns: self.list(&self.pool),
            manifold: self.manifold.name(),
            needed: format!(
                "ambient: {}, or one form per factor such as {}",
                part.width(),
                per_factor.join("*")
            ),
        })
    }

    fn guess(&self) -> Result<Chosen, DataError> {
        let forms = Form::of(self.manifold);
        for &form in &forms {
            let part = FactorForm { form, manifold: self.manifold };
            let columns = find_by_name(part, &self.names);
            if let Some(columns) = columns.filter(|c| !self.exact || c.len() == self.pool.len()) {
                return self.by_name(form, columns);
            }
        }
        if forms.contains(&Form::AnglesDeg) {
            let width = Form::AnglesDeg.width(self.manifold);
            if self.pool.len() == width {
                return self.by_unit(Form::AnglesDeg, Form::AnglesRad, self.pool.clone());
            }
            if let Some(columns) = self.angle_columns(width).filter(|_| !self.exact) {
                return self.by_unit(Form::AnglesDeg, Form::AnglesRad, columns);
            }
        }
        self.by_elimination(&forms)
    }

    /// A form whose names were found: among forms that differ by order or unit, the one that the
    /// file has.
    fn by_name(&self, form: Form, columns: Vec<usize>) -> Result<Chosen, DataError> {
        match form {
            Form::LatLon => {
                if self.unit(&columns) == Some(Unit::Radians) {
                    return Err(DataError::NoForm {
                        columns: self.list(&columns),
                        manifold: self.manifold.name(),
                        needed: "latlon and lonlat are in degrees, the names say radians"
                            .to_owned(),
                    });
                }
                let swapped = columns[1] < columns[0];
                let (form, columns) = if swapped {
                    (Form::LonLat, vec![columns[1], columns[0]])
                } else {
                    (Form::LatLon, columns)
                };
                Ok(self.guessed(form, columns, ""))
            }
            Form::Quaternion => {
                let mut last = columns.clone();
                last.rotate_left(1);
                if last.is_sorted() && !columns.is_sorted() {
                    return Ok(self.guessed(Form::QuaternionXyzw, last, ""));
                }
                Ok(self.guessed(Form::Quaternion, columns, ""))
            }
            Form::AnglesDeg | Form::AnglesRad => {
                self.by_unit(Form::AnglesDeg, Form::AnglesRad, columns)
            }
            Form::Euler | Form::EulerRad => self.by_unit(Form::Euler, Form::EulerRad, columns),
            _ => Ok(self.guessed(form, columns, "")),
        }
    }

    /// The unit that all names say.
    fn unit(&self, columns: &[usize]) -> Option<Unit> {
        let mut units = columns.iter().map(|&i| normalised(&self.table.columns[i].name).1);
        let first = units.next().flatten()?;
        units.all(|unit| unit == Some(first)).then_some(first)
    }

    /// Degrees or radians: by the names, or because a value is beyond one turn in radians.
    fn by_unit(
        &self,
        degrees: Form,
        radians: Form,
        columns: Vec<usize>,
    ) -> Result<Chosen, DataError> {
        match self.unit(&columns) {
            Some(Unit::Degrees) => return Ok(self.guessed(degrees, columns, "the names say so")),
            Some(Unit::Radians) => return Ok(self.guessed(radians, columns, "the names say so")),
            None => {}
        }
        let mut most = 0f64;
        for &column in &columns {
            let values = self.table.numbers(column)?;
            most = values.iter().fold(most, |most, v| most.max(v.abs()));
        }
        if most > TAU + TOLERANCE {
            let why = format!("values reach {most}, beyond 2π");
            return Ok(self.guessed(degrees, columns, &why));
        }
        Err(DataError::Ambiguous {
            columns: self.list(&columns),
            candidates: format!("{degrees} or {radians}"),
            why: format!(", because all values are within ±{most}"),
        })
    }

    /// The only form with that many columns, or the only one that every row fits.
    fn by_elimination(&self, forms: &[Form]) -> Result<Chosen, DataError> {
        let mut candidates: Vec<Form> =
            forms.iter().copied().filter(|f| f.width(self.manifold) == self.pool.len()).collect();
        if candidates.len() > 1 {
            // Other names for the same numbers.
            let same = [Form::Xyz, Form::Matrix, Form::Lorentz];
            if candidates.iter().any(|form| same.contains(form)) {
                candidates.retain(|&form| form != Form::Ambient);
            }
        }
        match candidates[..] {
            [] => Err(self.no_form(forms)),
            [only] => {
                let why = format!(
                    "the only form of {} with {} columns",
                    self.manifold.name(),
                    self.pool.len()
                );
                Ok(self.guessed(only, self.pool.clone(), &why))
            }
            _ => self.by_fit(&candidates),
        }
    }

    fn by_fit(&self, candidates: &[Form]) -> Result<Chosen, DataError> {
        let columns: Vec<Vec<f64>> =
            self.pool.iter().map(|&i| self.table.numbers(i)).collect::<Result<_, _>>()?;
        let mut point = vec![0.0; self.manifold.ambient_dim()];
        let mut row = vec![0.0; columns.len()];
        let mut fits = |form: Form| {
            (0..self.table.rows()).all(|index| {
                for (value, column) in row.iter_mut().zip(&columns) {
                    *value = column[index];
                }
                to_point(form, self.manifold, &row, &mut point).is_ok()
            })
        };
        let fitting: Vec<Form> = candidates.iter().copied().filter(|&f| fits(f)).collect();
        let (listed, why) = match fitting[..] {
            [only] => {
                let others: Vec<_> =
                    candidates.iter().filter(|&&f| f != only).map(|f| f.name()).collect();
                let why = format!("some rows do not fit {}", others.join(" or "));
                return Ok(self.guessed(only, self.pool.clone(), &why));
            }
            [] => (candidates, ", but no form fits every row"),
            _ => (&fitting[..], ", because every row fits and no header tells"),
        };
        Err(DataError::Ambiguous {
            columns: self.list(&self.pool),
            candidates: listed.iter().map(|f| f.name()).collect::<Vec<_>>().join(" or "),
            why: why.to_owned(),
        })
    }

    fn no_form(&self, forms: &[Form]) -> DataError {
        let needed: Vec<_> = forms
            .iter()
            .map(|form| match patterns(*form, self.manifold).first() {
                Some(names) if names.len() <= 4 => format!("{form}: {}", names.join(", ")),
                _ => format!("{form}: {} columns", form.width(self.manifold)),
            })
            .collect();
        DataError::NoForm {
            columns: self.list(&self.open),
            manifold: self.manifold.name(),
            needed: needed.join("; "),
        }
    }

    fn guessed(&self, form: Form, columns: Vec<usize>, why: &str) -> Chosen {
        let unit = match form {
            Form::LatLon | Form::LonLat | Form::Euler => " (degrees)",
            Form::Polar | Form::Rotvec | Form::EulerRad => " (radians)",
            _ => "",
        };
        let because = if why.is_empty() { String::new() } else { format!(": {why}") };
        let verb = if columns.len() == 1 { "column" } else { "columns" };
        let note = format!("{verb} {} read as {form}{unit}{because}", self.list(&columns));
        Chosen { forms: Forms::single(form), columns, note: Some(note) }
    }
}
