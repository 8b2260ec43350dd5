//! NumPy's .npy: a magic number, a Python dictionary in text, and raw numbers.

use half::f16;

use super::{Column, FileFormat, Limits, Table, Values};
use crate::error::DataError;

const MAGIC: &[u8] = b"\x93NUMPY";

fn damaged(problem: impl Into<String>) -> DataError {
    DataError::Binary { format: "NumPy", problem: problem.into() }
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Table, DataError> {
    let (header, data) = split(bytes)?;
    let header = Header::parse(header)?;
    let (rows, width) = match header.shape[..] {
        [rows] => (rows, 1),
        [rows, width] => (rows, width),
        _ => {
            let dimensions = header.shape.len();
            return Err(damaged(format!(
                "the array has {dimensions} dimensions, read are 1 and 2"
            )));
        }
    };
    limits.check_columns(usize::try_from(width).unwrap_or(usize::MAX))?;
    let cells = rows.checked_mul(width);
    let claimed = cells.and_then(|cells| cells.checked_mul(header.number.size as u64));
    if claimed != Some(data.len() as u64) {
        let found = data.len();
        let size = header.number.size;
        return Err(damaged(format!(
            "{rows} × {width} numbers of {size} bytes are announced, {found} bytes follow"
        )));
    }
    limits.check_cells(rows, width as usize)?;
    let (rows, width) = (rows as usize, width as usize);
    let at = |row: usize, column: usize| {
        let index = if header.fortran { column * rows + row } else { row * width + column };
        let start = index * header.number.size;
        header.number.decode(&data[start..start + header.number.size])
    };
    let columns = (0..width)
        .map(|c| Column::numbers(c.to_string(), (0..rows).map(|r| at(r, c)).collect()))
        .collect();
    Ok(Table {
        columns,
        lines: (1..=rows as u64).collect(),
        has_header: false,
        format: FileFormat::Npy,
    })
}

/// The header's text and the bytes after it.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), DataError> {
    let cut = || damaged("the file ends inside its header");
    let rest =
        bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("the first bytes are not NumPy's"))?;
    let (&[major, _minor], rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match major {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        _ => return Err(damaged(format!("version {major} of the format is not known"))),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| damaged("the header is not text"))?;
    Ok((header, data))
}

/// The type of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    kind: char,
    size: usize,
    big_endian: bool,
}

impl Number {
    /// The type of this name, such as "<f8".
    pub fn parse(descr: &str) -> Result<Self, DataError> {
        let refuse = || {
            damaged(format!(
                "numbers of type '{}' are not read; f2, f4, f8, i1 to i8, u1 to u8 and b1 are",
                super::shortened(descr)
            ))
        };
        let mut chars = descr.chars();
        let order = chars.next().ok_or_else(refuse)?;
        let kind = chars.next().ok_or_else(refuse)?;
        let size: usize = chars.as_str().parse().map_err(|_| refuse())?;
        let big_endian = match order {
            '<' | '|' => false,
            '>' => true,
            // '=' is the order of the machine that wrote the file, which the file does not tell.
            _ => return Err(refuse()),
        };
        let known = match kind {
            'f' => matches!(size, 2 | 4 | 8),
            'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
            'b' => size == 1,
            _ => false,
        };
        if known { Ok(Self { kind, size, big_endian }) } else { Err(refuse()) }
    }

    /// The number that these bytes are.
    pub fn decode(self, bytes: &[u8]) -> f64 {
        let mut word = [0u8; 8];
        for (i, byte) in bytes.iter().enumerate() {
            word[if self.big_endian { self.size - 1 - i } else { i }] = *byte;
        }
        let bits = u64::from_le_bytes(word);
        match (self.kind, self.size) {
            ('f', 2) => f16::from_bits(bits as u16).to_f64(),
            ('f', 4) => f64::from(f32::from_bits(bits as u32)),
            ('f', _) => f64::from_bits(bits),
            ('i', size) => {
                let shift = 64 - 8 * size as u32;
                ((bits << shift) as i64 >> shift) as f64
            }
            ('b', _) => f64::from(u8::from(bits != 0)),
            _ => bits as f64,
        }
    }
}

/// `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`
#[derive(Debug, PartialEq)]
struct Header {
    number: Number,
    fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, DataError> {
        let number = match value_of(text, "descr")?.strip_prefix(['\'', '"']) {
            Some(rest) => Number::parse(rest.split(['\'', '"']).next().unwrap_or(""))?,
            None => return Err(damaged("it holds records with named fields, which are not read")),
        };
        let fortran = value_of(text, "fortran_order")?;
        let fortran = match (fortran.starts_with("True"), fortran.starts_with("False")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(damaged("'fortran_order' of the header is neither True nor False")),
        };
        let shape = value_of(text, "shape")?
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .ok_or_else(|| damaged("'shape' of the header is not in parentheses"))?
            .0
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                part.trim_end_matches('L').parse().map_err(|_| {
                    damaged(format!("'{}' in the shape is not a size", super::shortened(part)))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { number, fortran, shape })
    }
}

/// The text after `'key':`.
fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str, DataError> {
    let missing = || damaged(format!("the header has no '{key}'"));
    let at = [format!("'{key}'"), format!("\"{key}\"")]
        .iter()
        .find_map(|quoted| text.find(quoted.as_str()).map(|at| at + quoted.len()))
        .ok_or_else(missing)?;
    Ok(text[at..].trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start())
}

/// One array of f64, little-endian, row by row.
pub(super) fn write(columns: &[Column], rows: usize) -> Result<Vec<u8>, DataError> {
    file(1, "'<f8'", (rows, columns.len()), columns)
}

/// A structured array of f64 with a field for every column, little-endian.
pub(super) fn write_fields(
    columns: &[Column],
    shape: (usize, usize),
) -> Result<Vec<u8>, DataError> {
    let fields: Vec<String> = columns
        .iter()
        .map(|column| format!("('{}', '<f8')", column.name.replace(['\\', '\''], "_")))
        .collect();
    // Version 3, because names may have letters beyond ASCII.
    file(3, &format!("[{}]", fields.join(", ")), shape, columns)
}

/// A file of the numbers of all columns, row by row.
fn file(
    version: u8,
    descr: &str,
    shape: (usize, usize),
    columns: &[Column],
) -> Result<Vec<u8>, DataError> {
    let numbers = columns
        .iter()
        .map(|column| match &column.values {
            Values::Numbers(values) => Ok(values.as_slice()),
            _ => Err(DataError::TextInNpy { column: column.name.clone() }),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut header = format!(
        "{{'descr': {descr}, 'fortran_order': False, 'shape': ({}, {}), }}",
        shape.0, shape.1
    );
    // Magic number, version, and the header's length: two bytes in version 1, four later.
    let length_bytes = if version == 1 { 2 } else { 4 };
    let before = MAGIC.len() + 2 + length_bytes;
    // The data begin at a multiple of 64 bytes, after a line end.
    let padding = 63 - (before + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let rows = numbers.first().map_or(0, |values| values.len());
    let mut bytes = Vec::with_capacity(before + header.len() + 8 * rows * numbers.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[version, 0]);
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes()[..length_bytes]);
    bytes.extend_from_slice(header.as_bytes());
    for row in 0..rows {
        for values in &numbers {
            bytes.extend_from_slice(&values[row].to_le_bytes());
        }
    }
    Ok(bytes)
}
