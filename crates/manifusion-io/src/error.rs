//! What can be wrong with a file, its rows or a split: one sentence each, with the numbers.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// A problem, with the file that has it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IoError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was read or written, and its content is not what is needed.
    #[error("{}: {problem}", path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: DataError,
    },
}

impl IoError {
    pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> Self + '_ {
        move |source| Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn data(path: &Path) -> impl Fn(DataError) -> Self + '_ {
        move |problem| Self::Data { path: path.to_owned(), problem }
    }
}

/// What is wrong with the content of a file, or with what was asked of it.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DataError {
    /// Rows that are no points of the manifold, beyond what forms check themselves.
    #[error(transparent)]
    Points(#[from] manifusion::points::PointsError),
    /// The file is larger than the limit.
    #[error("the file has {found} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Bytes found.
        found: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The table would take more memory than the limit.
    #[error("the file has {found} {what}, more than the limit of {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many, as far as counted.
        found: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// Not one of the formats that are read.
    #[error("{found}; read are CSV and TSV, NumPy .npy and Parquet")]
    Format {
        /// What the file seems to be.
        found: String,
    },
    /// A file name whose format is not known.
    #[error("'{name}' has no extension that says a format; use .csv, .tsv, .npy or .parquet")]
    Extension {
        /// The file's name.
        name: String,
    },
    /// Nothing in it.
    #[error("the file has no rows")]
    Empty,
    /// A line with another number of fields than the first.
    #[error("line {line} has {found} fields, line {first} has {expected}")]
    Ragged {
        /// The line.
        line: u64,
        /// Its fields.
        found: usize,
        /// The first line that has fields.
        first: u64,
        /// Fields of that line.
        expected: usize,
    },
    /// Text in another encoding.
    #[error("line {line}, column {column} is not UTF-8 text; save the file as UTF-8")]
    Encoding {
        /// The line.
        line: u64,
        /// The column, from 1.
        column: usize,
    },
    /// A binary file that does not follow its format.
    #[error("the {format} file is damaged or not supported: {problem}")]
    Binary {
        /// The format's name.
        format: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A field that should be a number.
    #[error("{place} {line}, column '{column}': {problem}")]
    Field {
        /// "line" or "row".
        place: &'static str,
        /// Its number, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What is wrong with the field.
        problem: String,
    },
    /// A column of a type that is not read.
    #[error("column '{column}' holds {kind}, which cannot be used here")]
    ColumnType {
        /// The column.
        column: String,
        /// What it holds.
        kind: String,
    },
    /// No column of that name or number.
    #[error("there is no column '{name}'; the columns are {available}")]
    NoColumn {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// A name that several columns have.
    #[error("{count} columns are named '{name}'; pick one by its number, from 0")]
    SeveralColumns {
        /// The name.
        name: String,
        /// How many columns have it.
        count: usize,
    },
    /// The filter leaves nothing.
    #[error("no row has {column} = '{value}'; column '{column}' holds {examples}")]
    FilterEmpty {
        /// The column.
        column: String,
        /// The value asked for.
        value: String,
        /// Some of the values there are.
        examples: String,
    },
    /// Not a form's name.
    #[error("unknown form '{name}'; allowed: {allowed}, or one per factor joined by '*'")]
    UnknownForm {
        /// What was given.
        name: String,
        /// The forms that are understood.
        allowed: String,
    },
    /// A form that makes no sense on this manifold.
    #[error("form '{form}' does not describe points of {manifold}; its forms are {allowed}")]
    FormOfManifold {
        /// The form.
        form: String,
        /// The manifold.
        manifold: String,
        /// The forms that do.
        allowed: String,
    },
    /// A product with another number of forms than factors.
    #[error(
        "{manifold} has {factors} factors, '{form}' names {found} forms; give one per factor or 'ambient'"
    )]
    FactorForms {
        /// The manifold.
        manifold: String,
        /// Its factors.
        factors: usize,
        /// What was given.
        form: String,
        /// The forms given.
        found: usize,
    },
    /// Another number of columns than the form has.
    #[error(
        "form '{form}' of {manifold} needs {expected} columns, there are {found} ({columns}); pick them with --columns"
    )]
    ColumnCount {
        /// The form.
        form: String,
        /// The manifold.
        manifold: String,
        /// Columns needed.
        expected: usize,
        /// Columns to choose from.
        found: usize,
        /// Their names.
        columns: String,
    },
    /// No form fits the columns.
    #[error(
        "columns {columns} fit no form of {manifold} ({needed}); pick them with --columns or say the form with --as"
    )]
    NoForm {
        /// The columns there are.
        columns: String,
        /// The manifold.
        manifold: String,
        /// Forms with their number of columns.
        needed: String,
    },
    /// More than one form fits, or none can be told from the numbers.
    #[error("columns {columns} can be read as {candidates}{why}; say which with --as")]
    Ambiguous {
        /// The columns.
        columns: String,
        /// The forms, joined by "or".
        candidates: String,
        /// Why they cannot be told apart; empty or ", because …".
        why: String,
    },
    /// Some rows are not points.
    #[error("{0}")]
    Rows(BadRows),
    /// A text column for a format of numbers.
    #[error("column '{column}' holds text, which a .npy file cannot; write .csv or .parquet")]
    TextInNpy {
        /// The column.
        column: String,
    },
    /// Columns of different lengths.
    #[error("column '{column}' has {found} rows, the first column has {expected}")]
    ColumnLength {
        /// The column.
        column: String,
        /// Its rows.
        found: usize,
        /// Rows of the first column.
        expected: usize,
    },
    /// Points whose coordinates do not fill rows.
    #[error("{found} coordinates are not rows of {width}")]
    PointWidth {
        /// Coordinates given.
        found: usize,
        /// Coordinates of a point.
        width: usize,
    },
}

/// Rows that violate a form or a manifold: the first few by line, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRows {
    /// "line" or "row".
    pub place: &'static str,
    /// Number and what it has, such as (17, "latitude 135.2 is beyond ±90 degrees").
    pub first: Vec<(u64, String)>,
    /// How many rows are bad.
    pub total: usize,
    /// How many rows there are.
    pub rows: usize,
    /// The probable cause, if one is known.
    pub hint: Option<String>,
}

impl BadRows {
    /// How many rows are named.
    pub const NAMED: usize = 5;
}

impl std::fmt::Display for BadRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named: Vec<_> = self
            .first
            .iter()
            .map(|(line, problem)| format!("{} {line}: {problem}", self.place))
            .collect();
        write!(f, "{}", named.join("; "))?;
        if self.total > self.first.len() {
            write!(f, "; and {} more", self.total - self.first.len())?;
        }
        write!(f, " ({} of {} rows)", self.total, self.rows)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}
