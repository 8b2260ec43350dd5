//! Rows of another file for a trained model, and the model's columns beside them.

use std::path::PathBuf;

use manifusion::points::Points;
use manifusion_io::{
    Column, DataError, Dataset, FileFormat, IoError, Values, point_columns, read_as_written,
    read_table,
};

use crate::config::{DataSettings, file_name, synthetic_name};
use crate::data::read;
use crate::error::RunError;
use crate::stored::StoredRun;

/// What is said about the rows; what is left out is as in the run.
#[derive(Clone, Debug, Default)]
pub struct RowsRequest {
    /// A file, or `synthetic:NAME`.
    pub source: String,
    /// The manifold, where it is not the run's.
    pub manifold: Option<String>,
    /// The form of its columns.
    pub form: Option<String>,
    /// The columns.
    pub columns: Option<Vec<String>>,
    /// Only rows with this value in this column: COLUMN=VALUE.
    pub filter: Option<String>,
    /// Rows of a generated set.
    pub rows: Option<usize>,
    /// Its seed. With the run's own they are the rows that the run was given.
    pub seed: Option<u64>,
}

/// Rows of a file for a trained model.
#[derive(Debug)]
pub struct NewRows {
    data: Dataset,
    /// Where all of a row's columns can be read again; none for a generated set or a pipe.
    file: Option<PathBuf>,
    /// What a user should know, in sentences.
    pub notes: Vec<String>,
}

impl NewRows {
    /// Reads the rows. Columns are the run's unless others are given; where the file does not tell
    /// its form, it is that of the run's data.
    pub fn load(request: &RowsRequest, run: &StoredRun) -> Result<Self, RunError> {
        let RowsRequest { source, form, columns, filter, rows, seed, .. } = request.clone();
        let known = &run.settings().data;
        let mut settings = DataSettings {
            source: Some(source.clone()),
            form: form.or_else(|| known.form.clone()),
            columns: columns.or_else(|| known.columns.clone()),
            filter,
            group_by: None,
            rows: rows.unwrap_or(known.rows),
            ..known.clone()
        };
        let seed = seed.unwrap_or(run.settings().seed);
        let manifold = request.manifold.as_ref().unwrap_or(&run.settings().manifold).clone();
        let mut notes = Vec::new();
        let (data, name) = match read(&settings, Some(&manifold), seed) {
            Err(error) if settings.form.is_none() && is_untold(&error) => {
                let form = run.data_facts()?.output.form.to_string();
                let note = format!("{} read as {form}, like the training data", file_name(&source));
                settings.form = Some(form);
                // Where that does not help either, what was unclear is the better message.
                let read = read(&settings, Some(&manifold), seed).map_err(|_| error)?;
                notes.push(note);
                read
            }
            read => read?,
        };
        let found = data.points.manifold().ambient_dim();
        let expected = run.geometry()?.manifold.ambient_dim();
        if found != expected {
            return Err(RunError::Width { name, found, expected });
        }
        if request.seed.is_some() && synthetic_name(&source).is_none() {
            notes.push(format!("{name} is scored as it is: the seed is for generated sets alone"));
        }
        let file = Some(PathBuf::from(&source)).filter(|path| path.is_file());
        if file.is_none() && synthetic_name(&source).is_none() {
            notes.push(format!(
                "{name} can be read only once: of its columns only the coordinates are written"
            ));
        }
        Ok(Self { data, file, notes })
    }

    /// The points of the rows.
    pub fn points(&self) -> &Points {
        &self.data.points
    }

    /// Keeps the first rows only.
    pub fn truncate(&mut self, rows: usize) -> Result<(), RunError> {
        let first: Vec<usize> = (0..rows.min(self.data.points.len())).collect();
        self.data.points =
            self.data.points.select(&first).map_err(manifusion::error::SolveError::from)?;
        self.data.lines.truncate(rows);
        Ok(())
    }

    /// The rows with one more column, for a file of this format. Rows of a file keep all their
    /// columns, in text as they are written there; a NumPy file, which has numbers only, gets the
    /// coordinates.
    pub fn columns_with(
        &mut self,
        run: &StoredRun,
        (name, values): (&str, &[f64]),
        format: FileFormat,
    ) -> Result<Vec<Column>, RunError> {
        let table = match (&self.file, format) {
            (None, _) | (_, FileFormat::Npy) => {
                return run.point_columns(self.data.points.coordinates(), &[(name, values)]);
            }
            (Some(file), FileFormat::Parquet) => read_table(file),
            (Some(file), FileFormat::Csv | FileFormat::Tsv) => read_as_written(file),
        };
        let mut table = table?;
        table.keep_lines(&self.data.lines);
        if !table.has_header {
            let manifold = &run.geometry()?.manifold;
            let usual = point_columns(&[], manifold.as_ref(), &self.data.output)?;
            for (column, usual) in self.data.columns.iter().zip(usual) {
                table.columns[*column].name = usual.name;
            }
        }
        let notes = &mut self.notes;
        table.columns.retain(|column| {
            let unread = matches!(column.values, Values::Unread(_));
            if unread {
                notes.push(format!(
                    "column '{}' is of a type that is not read: left out",
                    column.name
                ));
            } else if column.name == name {
                notes.push(format!("the file's own column '{name}' is replaced"));
            }
            !unread && column.name != name
        });
        table.columns.push(Column::numbers(name, values.to_vec()));
        Ok(table.columns)
    }
}

/// Whether a file could not be read because nothing says its form.
fn is_untold(error: &RunError) -> bool {
    matches!(error, RunError::Data(IoError::Data { problem, .. }) if is_unclear(problem))
}

/// Whether neither names nor numbers tell the form of columns.
pub(crate) fn is_unclear(problem: &DataError) -> bool {
    matches!(problem, DataError::NoForm { .. } | DataError::Ambiguous { .. })
}
