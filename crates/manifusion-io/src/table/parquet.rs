//! Parquet, flat columns, through the `parquet` crate without Arrow.

use bytes::Bytes;
use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical,
};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescriptor, Type};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Column, FileFormat, Limits, Table, Values};
use crate::error::DataError;

/// Records decoded at a time.
const BATCH: usize = 8192;

fn damaged(error: &ParquetError) -> DataError {
    DataError::Binary { format: "Parquet", problem: error.to_string() }
}

fn inconsistent(problem: String) -> DataError {
    DataError::Binary { format: "Parquet", problem }
}

/// Reads a file. The `parquet` crate panics on some damaged pages where it should return an error;
/// this is where they become one.
pub(super) fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Table, DataError> {
    DECODING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| read_checked(bytes, limits)));
    DECODING.set(false);
    result.unwrap_or_else(|_| Err(inconsistent("a page cannot be decoded".to_owned())))
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside the decoder of a Parquet file. A panic there becomes an error
/// value, so a program's panic hook should stay silent about it.
pub fn is_decoding() -> bool {
    DECODING.get()
}

fn read_checked(bytes: Vec<u8>, limits: &Limits) -> Result<Table, DataError> {
    let size = bytes.len() as u64;
    let reader = SerializedFileReader::new(Bytes::from(bytes)).map_err(|e| damaged(&e))?;
    let metadata = reader.metadata();
    for chunk in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        check_place(chunk, size)?;
    }
    let schema = metadata.file_metadata().schema_descr();
    limits.check_columns(schema.num_columns())?;
    let mut rows = 0u64;
    for group in metadata.row_groups() {
        let own = u64::try_from(group.num_rows())
            .map_err(|_| inconsistent(format!("a row group of {} rows", group.num_rows())))?;
        rows = rows.saturating_add(own);
    }
    limits.check_cells(rows, schema.num_columns())?;
    let mut text_bytes = 0u64;
    let mut columns = Vec::with_capacity(schema.num_columns());
    for index in 0..schema.num_columns() {
        let description = schema.column(index);
        let mut chunks = metadata.row_groups().iter().map(|group| group.column(index));
        let unread = chunks.any(|chunk| chunk.encodings().any(takes_memory_unchecked));
        let kind = if unread {
            Err("text in a delta encoding".to_owned())
        } else {
            Family::of(&description)
        };
        let values = match kind {
            Err(kind) => Values::Unread(kind),
            Ok(kind) => {
                let mut sink = Sink::new(kind, limits.text_bytes, text_bytes);
                for group in 0..reader.num_row_groups() {
                    let group = reader.get_row_group(group).map_err(|e| damaged(&e))?;
                    let expected = group.metadata().num_rows() as usize;
                    let pages = group.get_column_page_reader(index).map_err(|e| damaged(&e))?;
                    let pages = Box::new(CheckedPages { pages, rows: expected });
                    let column = get_column_reader(Arc::clone(&description), pages);
                    sink.read(column, &description, expected)?;
                }
                text_bytes = sink.text_bytes;
                sink.values
            }
        };
        columns.push(Column { name: description.path().string(), values });
    }
    Ok(Table {
        columns,
        lines: (1..=rows).collect(),
        has_header: true,
        format: FileFormat::Parquet,
    })
}

/// The encodings whose decoders take as much memory as the page claims, without a look at its size.
/// Writers use them for text on request only.
fn takes_memory_unchecked(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_BYTE_ARRAY | Encoding::DELTA_LENGTH_BYTE_ARRAY)
}

/// Pages that claim no more than they or their row group can hold.
struct CheckedPages {
    pages: Box<dyn PageReader>,
    rows: usize,
}

impl CheckedPages {
    fn check(&self, page: &Page) -> Result<(), ParquetError> {
        let claimed = page.num_values() as usize;
        let (most, what) = match page {
            // Every value of a dictionary takes a byte or more.
            Page::DictionaryPage { buf, .. } => (buf.len(), "dictionary"),
            _ => (self.rows, "page"),
        };
        if claimed > most {
            let problem = format!("a {what} of {claimed} values, where at most {most} fit");
            return Err(ParquetError::General(problem));
        }
        if takes_memory_unchecked(page.encoding()) {
            return Err(ParquetError::NYI(format!("encoding {}", page.encoding())));
        }
        Ok(())
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

/// An error unless a column chunk lies within the file.
fn check_place(chunk: &ColumnChunkMetaData, size: u64) -> Result<(), DataError> {
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let length = chunk.compressed_size();
    let end = u64::try_from(start)
        .ok()
        .zip(u64::try_from(length).ok())
        .and_then(|(start, length)| start.checked_add(length));
    if end.is_some_and(|end| end <= size) {
        return Ok(());
    }
    Err(inconsistent(format!(
        "a column of {length} bytes from {start} on is announced in a file of {size} bytes"
    )))
}

/// How a column's values become numbers or text.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Number,
    Unsigned,
    Text,
}

impl Family {
    /// The kind, or the name of what is not read.
    fn of(column: &ColumnDescriptor) -> Result<Self, String> {
        if column.max_rep_level() > 0 {
            return Err("lists".to_owned());
        }
        let logical = column.logical_type_ref();
        let converted = column.converted_type();
        if matches!(logical, Some(LogicalType::Decimal { .. }))
            || converted == ConvertedType::DECIMAL
        {
            return Err("decimals".to_owned());
        }
        match column.physical_type() {
            Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => Ok(Self::Number),
            Physical::INT32 | Physical::INT64 => Ok(match converted {
                ConvertedType::UINT_32 | ConvertedType::UINT_64 => Self::Unsigned,
                _ => Self::Number,
            }),
            Physical::BYTE_ARRAY => match logical {
                None | Some(LogicalType::String | LogicalType::Enum | LogicalType::Json) => {
                    Ok(Self::Text)
                }
                Some(_) => Err("binary data".to_owned()),
            },
            Physical::INT96 => Err("INT96 times".to_owned()),
            Physical::FIXED_LEN_BYTE_ARRAY => Err("binary data of fixed length".to_owned()),
        }
    }
}

/// A column as it grows.
struct Sink {
    kind: Family,
    values: Values,
    text_bytes: u64,
    text_limit: u64,
}

impl Sink {
    fn new(kind: Family, text_limit: u64, text_bytes: u64) -> Self {
        let values = if kind == Family::Text {
            Values::Text(Vec::new())
        } else {
            Values::Numbers(Vec::new())
        };
        Self { kind, values, text_bytes, text_limit }
    }

    fn read(
        &mut self,
        column: ColumnReader,
        description: &ColumnDescriptor,
        expected: usize,
    ) -> Result<(), DataError> {
        let unsigned = self.kind == Family::Unsigned;
        let most = description.max_def_level();
        match column {
            ColumnReader::BoolColumnReader(r) => {
                self.numbers(r, most, expected, |v| f64::from(u8::from(*v)))
            }
            ColumnReader::Int32ColumnReader(r) => self.numbers(r, most, expected, |v| {
                if unsigned { f64::from(*v as u32) } else { f64::from(*v) }
            }),
            ColumnReader::Int64ColumnReader(r) => {
                self.numbers(
                    r,
                    most,
                    expected,
                    |v| {
                        if unsigned { *v as u64 as f64 } else { *v as f64 }
                    },
                )
            }
            ColumnReader::FloatColumnReader(r) => {
                self.numbers(r, most, expected, |v| f64::from(*v))
            }
            ColumnReader::DoubleColumnReader(r) => self.numbers(r, most, expected, |v| *v),
            ColumnReader::ByteArrayColumnReader(r) => self.drain(r, most, expected, Self::text),
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Err(inconsistent("a column changes its type between row groups".to_owned()))
            }
        }
    }

    fn numbers<T: DataType>(
        &mut self,
        reader: ColumnReaderImpl<T>,
        max_def_level: i16,
        expected: usize,
        value: impl Fn(&T::T) -> f64,
    ) -> Result<(), DataError> {
        self.drain(reader, max_def_level, expected, |sink, v| {
            sink.number(value(v));
            Ok(())
        })
    }

    /// All `expected` records of one row group; a null becomes an empty field.
    fn drain<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        max_def_level: i16,
        expected: usize,
        push: impl Fn(&mut Self, &T::T) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let mut done = 0;
        while done < expected {
            values.clear();
            levels.clear();
            let wanted = BATCH.min(expected - done);
            let (records, ..) = reader
                .read_records(wanted, Some(&mut levels), None, &mut values)
                .map_err(|e| damaged(&e))?;
            if records == 0 {
                return Err(inconsistent(format!(
                    "a column has {done} values in a row group of {expected} rows"
                )));
            }
            let mut present = values.iter();
            for row in 0..records {
                let is_null = max_def_level > 0 && levels.get(row) != Some(&max_def_level);
                match present.as_slice().first() {
                    _ if is_null => self.missing(),
                    None => return Err(inconsistent("a column has too few values".to_owned())),
                    Some(value) => push(self, value)?,
                }
                if !is_null {
                    present.next();
                }
            }
            done += records;
        }
        Ok(())
    }

    fn number(&mut self, value: f64) {
        match &mut self.values {
            Values::Numbers(values) => values.push(value),
            // A null came before.
            Values::Text(values) => values.push(value.to_string()),
            Values::Unread(_) => {}
        }
    }

    fn text(&mut self, value: &ByteArray) -> Result<(), DataError> {
        self.text_bytes = self.text_bytes.saturating_add(value.len() as u64);
        super::check("bytes of text", self.text_bytes, self.text_limit)?;
        let text =
            value.as_utf8().map_err(|_| inconsistent("text that is not UTF-8".to_owned()))?;
        if let Values::Text(values) = &mut self.values {
            values.push(text.to_owned());
        }
        Ok(())
    }

    /// An empty field; a column of numbers turns into text, so that the place of the gap can be
    /// named.
    fn missing(&mut self) {
        if let Values::Numbers(values) = &self.values {
            self.values = Values::Text(values.iter().map(ToString::to_string).collect());
        }
        if let Values::Text(values) = &mut self.values {
            values.push(String::new());
        }
    }
}

/// One row group, snappy, required DOUBLE and STRING columns.
pub(super) fn write(columns: &[Column]) -> Result<Vec<u8>, DataError> {
    write_with(columns, Compression::SNAPPY).map_err(|e| damaged(&e))
}

fn write_with(columns: &[Column], compression: Compression) -> Result<Vec<u8>, ParquetError> {
    let fields = columns
        .iter()
        .map(|column| {
            let is_text = matches!(column.values, Values::Text(_));
            let physical = if is_text { Physical::BYTE_ARRAY } else { Physical::DOUBLE };
            let field = Type::primitive_type_builder(&column.name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(is_text.then_some(LogicalType::String));
            field.build().map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut writer) = group.next_column()? else { break };
        match &column.values {
            Values::Numbers(values) => {
                writer.typed::<DoubleType>().write_batch(values, None, None)?;
            }
            Values::Text(values) => {
                let values: Vec<_> = values.iter().map(|v| ByteArray::from(v.as_str())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Values::Unread(_) => {}
        }
        writer.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(bytes)
}
