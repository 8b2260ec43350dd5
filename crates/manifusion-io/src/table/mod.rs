//! Named columns of numbers or text, from and to CSV, TSV, NumPy and Parquet files.

pub(crate) mod npy;
mod parquet;
mod text;

pub use parquet::is_decoding;
use serde::{Deserialize, Serialize};
use std::path::Path;

use crate::atomic::write_atomic;
use crate::error::{DataError, IoError};

/// The formats of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Fields separated by commas (semicolons and tabs are recognised when reading).
    Csv,
    /// Fields separated by tabs.
    Tsv,
    /// One NumPy array of one or two dimensions.
    Npy,
    /// Apache Parquet, flat columns.
    Parquet,
}

impl FileFormat {
    /// The format that a file's extension says.
    pub fn from_extension(path: &Path) -> Result<Self, DataError> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Ok(Self::Csv),
            "tsv" | "tab" => Ok(Self::Tsv),
            "npy" => Ok(Self::Npy),
            "parquet" | "pq" => Ok(Self::Parquet),
            _ => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Err(DataError::Extension { name })
            }
        }
    }

    /// The usual extension, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Npy => "npy",
            Self::Parquet => "parquet",
        }
    }

    /// What the numbers of [`Table::lines`] count: lines of text, or rows of a binary file.
    pub fn place(self) -> &'static str {
        match self {
            Self::Csv | Self::Tsv => "line",
            Self::Npy | Self::Parquet => "row",
        }
    }

    /// The format of a file: by its first bytes where they say it, else by its extension.
    fn detect(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        let refuse = |found: &str| Err(DataError::Format { found: found.to_owned() });
        match bytes {
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => return Ok(Self::Npy),
            [b'P', b'A', b'R', b'1', ..] => return Ok(Self::Parquet),
            [b'P', b'K', 3, 4, ..] => {
                return refuse("this is a zip archive (.npz and .xlsx are such)");
            }
            [0x1f, 0x8b, ..] => return refuse("this is compressed with gzip; unpack it first"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                return refuse("this is UTF-16 text; save it as UTF-8");
            }
            _ => {}
        }
        match Self::from_extension(path) {
            Ok(Self::Npy) => refuse("this has the name of a NumPy file, but not its first bytes"),
            Ok(Self::Parquet) => {
                refuse("this has the name of a Parquet file, but not its first bytes")
            }
            Ok(text) => Ok(text),
            Err(_) if bytes.contains(&0) => refuse("this is a binary file of an unknown kind"),
            Err(_) => Ok(Self::Csv),
        }
    }
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// A number in every row.
    Numbers(Vec<f64>),
    /// Text; also a column of numbers in which some fields are empty or do not parse.
    Text(Vec<String>),
    /// A type that is not read, by name.
    Unread(String),
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// From the header, or the column's number from 0.
    pub name: String,
    /// What it holds.
    pub values: Values,
}

impl Column {
    /// A column of numbers.
    pub fn numbers(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self { name: name.into(), values: Values::Numbers(values) }
    }

    /// A column of text.
    pub fn text(name: impl Into<String>, values: Vec<String>) -> Self {
        Self { name: name.into(), values: Values::Text(values) }
    }

    /// Rows, where the column was read.
    pub fn len(&self) -> Option<usize> {
        match &self.values {
            Values::Numbers(values) => Some(values.len()),
            Values::Text(values) => Some(values.len()),
            Values::Unread(_) => None,
        }
    }

    /// Whether it was read and has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// A file's columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// All of the same length.
    pub columns: Vec<Column>,
    /// For each row its line in a text file, or its number in a binary one; from 1.
    pub lines: Vec<u64>,
    /// Whether the file names its columns.
    pub has_header: bool,
    /// The file's format.
    pub format: FileFormat,
}

impl Table {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The columns' names for a message, the first twelve of them.
    pub fn column_names(&self) -> String {
        join_names(self.columns.iter().map(|c| c.name.as_str()))
    }

    /// The index of a column by its name, else by its number from 0.
    pub fn find(&self, name: &str) -> Result<usize, DataError> {
        let mut named = (0..self.columns.len()).filter(|&i| self.columns[i].name == name);
        if let Some(first) = named.next() {
            return match named.count() {
                0 => Ok(first),
                more => Err(DataError::SeveralColumns { name: name.to_owned(), count: more + 1 }),
            };
        }
        match name.parse::<usize>() {
            Ok(index) if index < self.columns.len() => Ok(index),
            _ => Err(DataError::NoColumn { name: name.to_owned(), available: self.column_names() }),
        }
    }

    /// A column's numbers, or the first field that is not one.
    pub fn numbers(&self, index: usize) -> Result<Vec<f64>, DataError> {
        let column = &self.columns[index];
        match &column.values {
            Values::Numbers(values) => Ok(values.clone()),
            Values::Text(fields) => fields
                .iter()
                .zip(&self.lines)
                .map(|(f, &line)| self.number(column, f, line))
                .collect(),
            Values::Unread(kind) => {
                Err(DataError::ColumnType { column: column.name.clone(), kind: kind.clone() })
            }
        }
    }

    fn number(&self, column: &Column, field: &str, line: u64) -> Result<f64, DataError> {
        parse_number(field).ok_or_else(|| {
            let problem = if field.trim().is_empty() {
                "the field is empty".to_owned()
            } else {
                format!("'{}' is not a number", shortened(field))
            };
            DataError::Field {
                place: self.format.place(),
                line,
                column: column.name.clone(),
                problem,
            }
        })
    }

    /// A column as text, numbers in their shortest form.
    pub fn texts(&self, index: usize) -> Result<Vec<String>, DataError> {
        let column = &self.columns[index];
        match &column.values {
            Values::Numbers(values) => Ok(values.iter().map(ToString::to_string).collect()),
            Values::Text(values) => Ok(values.clone()),
            Values::Unread(kind) => {
                Err(DataError::ColumnType { column: column.name.clone(), kind: kind.clone() })
            }
        }
    }

    /// Keeps the rows that begin on these lines, which ascend.
    pub fn keep_lines(&mut self, lines: &[u64]) {
        let keep: Vec<bool> =
            self.lines.iter().map(|line| lines.binary_search(line).is_ok()).collect();
        self.retain(&keep);
    }

    /// Keeps the rows for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        fn pick<T>(values: &mut Vec<T>, keep: &[bool]) {
            let mut flags = keep.iter();
            values.retain(|_| flags.next().copied().unwrap_or(false));
        }
        for column in &mut self.columns {
            match &mut column.values {
                Values::Numbers(values) => pick(values, keep),
                Values::Text(values) => pick(values, keep),
                Values::Unread(_) => {}
            }
        }
        pick(&mut self.lines, keep);
    }
}

/// Names for a message, the first twelve of them.
pub(crate) fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<_> = names.map(shortened).collect();
    let text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{text}, … ({} in all)", names.len()) } else { text }
}

/// The first 40 characters.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn parse_number(field: &str) -> Option<f64> {
    field.trim().parse().ok()
}

/// How much memory a file may make the reader use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Columns.
    pub columns: u64,
    /// Rows times columns.
    pub cells: u64,
    /// Bytes of all text fields together, for compressed files.
    pub text_bytes: u64,
}

impl Default for Limits {
    /// 4 GiB of file, 65 536 columns, 2²⁸ cells (2 GiB of numbers), 1 GiB of text.
    fn default() -> Self {
        Self { file_bytes: 4 << 30, columns: 1 << 16, cells: 1 << 28, text_bytes: 1 << 30 }
    }
}

impl Limits {
    fn check_columns(&self, found: usize) -> Result<(), DataError> {
        check("columns", found as u64, self.columns)
    }

    fn check_cells(&self, rows: u64, columns: usize) -> Result<(), DataError> {
        check("cells", rows.saturating_mul(columns.max(1) as u64), self.cells)
    }
}

fn check(what: &'static str, found: u64, limit: u64) -> Result<(), DataError> {
    if found > limit { Err(DataError::TooMany { what, found, limit }) } else { Ok(()) }
}

/// Reads a table, its format by the first bytes and the extension.
pub fn read_table(path: &Path) -> Result<Table, IoError> {
    let bytes = read_bytes(path, &Limits::default())?;
    table_from_bytes(path, bytes, &Limits::default()).map_err(IoError::data(path))
}

/// Reads a table whose fields stay as they are written where the file is text: `007` and `1.50` are
/// not numbers then, and can be written again as they were.
pub fn read_as_written(path: &Path) -> Result<Table, IoError> {
    let limits = Limits::default();
    let bytes = read_bytes(path, &limits)?;
    table_of(path, bytes, &limits, true).map_err(IoError::data(path))
}

/// A file's bytes, if it is not larger than the limit.
pub(crate) fn read_bytes(path: &Path, limits: &Limits) -> Result<Vec<u8>, IoError> {
    let size = std::fs::metadata(path).map_err(IoError::file(path))?.len();
    if size > limits.file_bytes {
        let problem = DataError::TooLarge { found: size, limit: limits.file_bytes };
        return Err(IoError::Data { path: path.to_owned(), problem });
    }
    std::fs::read(path).map_err(IoError::file(path))
}

/// A table from a file's bytes; of the path only the extension is used.
pub fn table_from_bytes(path: &Path, bytes: Vec<u8>, limits: &Limits) -> Result<Table, DataError> {
    table_of(path, bytes, limits, false)
}

fn table_of(
    path: &Path,
    bytes: Vec<u8>,
    limits: &Limits,
    as_written: bool,
) -> Result<Table, DataError> {
    if bytes.is_empty() {
        return Err(DataError::Empty);
    }
    let table = match FileFormat::detect(path, &bytes)? {
        FileFormat::Npy => npy::read(&bytes, limits)?,
        FileFormat::Parquet => parquet::read(bytes, limits)?,
        format => text::read(&bytes, format, limits, as_written)?,
    };
    if table.rows() == 0 { Err(DataError::Empty) } else { Ok(table) }
}

/// Writes columns in the format that the extension says, atomically.
pub fn write_table(path: &Path, columns: &[Column]) -> Result<(), IoError> {
    let format = FileFormat::from_extension(path).map_err(IoError::data(path))?;
    let bytes = table_to_bytes(columns, format).map_err(IoError::data(path))?;
    write_atomic(path, &bytes)
}

/// The bytes of a file with these columns.
pub fn table_to_bytes(columns: &[Column], format: FileFormat) -> Result<Vec<u8>, DataError> {
    let rows = columns.first().and_then(Column::len).unwrap_or(0);
    check_lengths(columns, rows)?;
    match format {
        FileFormat::Csv => text::write(columns, rows, b','),
        FileFormat::Tsv => text::write(columns, rows, b'\t'),
        FileFormat::Npy => npy::write(columns, rows),
        FileFormat::Parquet => parquet::write(columns),
    }
}

/// The bytes of a NumPy file with a structured array of `shape`, a field for every column; each
/// column has the numbers of the array row by row.
pub fn structured_npy(columns: &[Column], shape: (usize, usize)) -> Result<Vec<u8>, DataError> {
    check_lengths(columns, shape.0 * shape.1)?;
    npy::write_fields(columns, shape)
}

/// An error unless every column was read and has `rows` rows.
fn check_lengths(columns: &[Column], rows: usize) -> Result<(), DataError> {
    for column in columns {
        match column.len() {
            Some(len) if len == rows => {}
            Some(found) => {
                let column = column.name.clone();
                return Err(DataError::ColumnLength { column, found, expected: rows });
            }
            None => {
                let (column, kind) = (column.name.clone(), "values that were not read".to_owned());
                return Err(DataError::ColumnType { column, kind });
            }
        }
    }
    Ok(())
}
