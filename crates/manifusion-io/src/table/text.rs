//! CSV and TSV.

use super::{Column, FileFormat, Limits, Table, Values, parse_number};
use crate::error::DataError;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The columns of a text: numbers where every field is one, or everything `as_written`.
pub(super) fn read(
    bytes: &[u8],
    format: FileFormat,
    limits: &Limits,
    as_written: bool,
) -> Result<Table, DataError> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut records = Records::new(bytes, format);
    let Some(first_line) = records.next()? else { return Err(DataError::Empty) };
    let width = records.width();
    limits.check_columns(width)?;
    let first: Vec<String> =
        (0..width).map(|i| records.field(i).map(str::to_owned)).collect::<Result<_, _>>()?;
    let has_header = is_header(&first);

    // Two passes, so that a column is stored once, as what it is: the first finds which columns are
    // numbers.
    let mut numeric = vec![!as_written; width];
    let mut lines = Vec::new();
    let mut pending = (!has_header).then_some(first_line);
    loop {
        let line = match pending.take() {
            Some(line) => line,
            None => match records.next()? {
                Some(line) => line,
                None => break,
            },
        };
        if records.width() != width {
            let found = records.width();
            return Err(DataError::Ragged { line, found, first: first_line, expected: width });
        }
        for (index, numeric) in numeric.iter_mut().enumerate() {
            *numeric = parse_number(records.field(index)?).is_some() && *numeric;
        }
        lines.push(line);
        limits.check_cells(lines.len() as u64, width)?;
    }

    let mut values: Vec<Values> = numeric
        .iter()
        .map(|&numeric| {
            if numeric {
                Values::Numbers(Vec::with_capacity(lines.len()))
            } else {
                Values::Text(Vec::with_capacity(lines.len()))
            }
        })
        .collect();
    let mut records = Records::new(bytes, format);
    if has_header {
        records.next()?;
    }
    while records.next()?.is_some() {
        for (index, values) in values.iter_mut().enumerate() {
            let field = records.field(index)?;
            match values {
                Values::Numbers(values) => values.push(parse_number(field).unwrap_or(f64::NAN)),
                Values::Text(values) => values.push(field.to_owned()),
                Values::Unread(_) => {}
            }
        }
    }

    let columns = values
        .into_iter()
        .zip(first)
        .enumerate()
        .map(|(index, (values, field))| Column {
            name: column_name(index, has_header.then_some(field.as_str())),
            values,
        })
        .collect();
    Ok(Table { columns, lines, has_header, format })
}

/// A first line is a header if none of its fields is a number and some field is not empty.
fn is_header(fields: &[String]) -> bool {
    fields.iter().all(|f| parse_number(f).is_none()) && fields.iter().any(|f| !f.is_empty())
}

/// A header's field, without the `#` that NumPy writes before the first; the column's number where
/// there is none.
fn column_name(index: usize, field: Option<&str>) -> String {
    let name = field.map_or("", |f| if index == 0 { f.trim_start_matches('#') } else { f }).trim();
    if name.is_empty() { index.to_string() } else { name.to_owned() }
}

/// The records of a text with the line that each begins on.
struct Records<'a> {
    bytes: &'a [u8],
    reader: csv::Reader<&'a [u8]>,
    record: csv::ByteRecord,
    line: u64,
    counted: usize,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8], format: FileFormat) -> Self {
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .delimiter(delimiter(bytes, format))
            .from_reader(bytes);
        Self { bytes, reader, record: csv::ByteRecord::new(), line: 1, counted: 0 }
    }

    /// The next record that is not a blank line, as the line it begins on.
    fn next(&mut self) -> Result<Option<u64>, DataError> {
        loop {
            let start = self.reader.position().byte() as usize;
            let more = self
                .reader
                .read_byte_record(&mut self.record)
                .map_err(|e| DataError::Binary { format: "CSV", problem: e.to_string() })?;
            if !more {
                return Ok(None);
            }
            self.count_lines(start);
            if self.record.len() > 1 || self.record.get(0).is_some_and(|field| !field.is_empty()) {
                return Ok(Some(self.line));
            }
        }
    }

    /// Moves `line` to the first byte from `start` on that is not a line end: the reader's own
    /// count stands before the blank lines that precede a record.
    fn count_lines(&mut self, start: usize) {
        let rest = self.bytes.get(start..).unwrap_or(&[]);
        let blank = rest.iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
        let end = (start + blank).min(self.bytes.len());
        for at in self.counted..end {
            let ends = match self.bytes[at] {
                b'\n' => true,
                b'\r' => self.bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            self.line += u64::from(ends);
        }
        self.counted = self.counted.max(end);
    }

    fn width(&self) -> usize {
        self.record.len()
    }

    /// A field of the current record; empty where the record is short.
    fn field(&self, index: usize) -> Result<&str, DataError> {
        std::str::from_utf8(self.record.get(index).unwrap_or(b""))
            .map_err(|_| DataError::Encoding { line: self.line, column: index + 1 })
    }
}

/// The extension's delimiter if the first line that is not blank has it, else another that it has.
fn delimiter(bytes: &[u8], format: FileFormat) -> u8 {
    let first =
        bytes.split(|b| matches!(b, b'\n' | b'\r')).find(|line| !line.trim_ascii().is_empty());
    let usual = if format == FileFormat::Tsv { b'\t' } else { b',' };
    [usual, b'\t', b';', b',']
        .into_iter()
        .find(|delimiter| first.is_some_and(|line| line.contains(delimiter)))
        .unwrap_or(usual)
}

/// The header line: none if the columns have no names but their numbers; a name that is a number
/// gets a prefix, since the line would be read back as data.
fn header(columns: &[Column]) -> Option<Vec<String>> {
    if columns.iter().enumerate().all(|(index, c)| c.name == index.to_string()) {
        return None;
    }
    let name = |c: &Column| match parse_number(&c.name) {
        Some(_) => format!("column_{}", c.name),
        None => c.name.clone(),
    };
    Some(columns.iter().map(name).collect())
}

pub(super) fn write(columns: &[Column], rows: usize, delimiter: u8) -> Result<Vec<u8>, DataError> {
    let failed =
        |e: &dyn std::fmt::Display| DataError::Binary { format: "CSV", problem: e.to_string() };
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
    if let Some(names) = header(columns) {
        writer.write_record(names).map_err(|e| failed(&e))?;
    }
    for row in 0..rows {
        for column in columns {
            match &column.values {
                // Debug writes the shortest digits that read back as the same number, with an
                // exponent where it is shorter.
                Values::Numbers(values) => writer.write_field(format!("{:?}", values[row])),
                Values::Text(values) => writer.write_field(&values[row]),
                Values::Unread(_) => Ok(()),
            }
            .map_err(|e| failed(&e))?;
        }
        writer.write_record(None::<&[u8]>).map_err(|e| failed(&e))?;
    }
    writer.into_inner().map_err(|e| failed(&e))
}
