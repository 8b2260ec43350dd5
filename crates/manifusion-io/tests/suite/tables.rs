//! Files of all formats, ours and those that NumPy and pyarrow wrote (`reference/io_golden.py`).

use manifusion_io::{
    Column, DataError, FileFormat, Limits, Table, Values, read_table, structured_npy,
    table_from_bytes, table_to_bytes, write_table,
};
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn parse(name: &str, text: &[u8]) -> Result<Table, DataError> {
    table_from_bytes(Path::new(name), text.to_vec(), &Limits::default())
}

fn names(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|c| c.name.as_str()).collect()
}

#[test]
fn csv_in_its_many_ways() {
    let expected = [vec![1.5, -3.0], vec![2.0, 4e5]];
    for (name, text, lines) in [
        ("a.csv", "lat,lon\n1.5,2\n-3,4e5\n", [2, 3]),
        ("crlf.csv", "lat,lon\r\n1.5,2\r\n-3,4e5\r\n", [2, 3]),
        ("old-mac.csv", "lat,lon\r1.5,2\r-3,4e5", [2, 3]),
        ("mark.csv", "\u{feff}lat,lon\n1.5,2\n-3,4e5", [2, 3]),
        ("blank.csv", "\n\nlat,lon\n\n1.5,2\n   \n\n-3,4e5\n\n", [5, 8]),
        ("blank-crlf.csv", "lat,lon\r\n\r\n1.5,2\r\n\r\n-3,4e5\r\n", [3, 5]),
        ("quoted.csv", "\"lat\",\"lon\"\n\"1.5\",2\n-3,\"4e5\"\n", [2, 3]),
        ("spaces.csv", " lat , lon\n 1.5, 2\n-3 ,4e5\n", [2, 3]),
        ("numpy.csv", "# lat,lon\n1.5,2\n-3,4e5\n", [2, 3]),
        ("tabs.tsv", "lat\tlon\n1.5\t2\n-3\t4e5\n", [2, 3]),
        ("tabs.csv", "lat\tlon\n1.5\t2\n-3\t4e5\n", [2, 3]),
        ("semicolons.csv", "lat;lon\n1.5;2\n-3;4e5\n", [2, 3]),
        ("commas.tsv", "lat,lon\n1.5,2\n-3,4e5\n", [2, 3]),
        ("no-extension", "lat,lon\n1.5,2\n-3,4e5\n", [2, 3]),
    ] {
        let table = parse(name, text.as_bytes()).unwrap();
        assert_eq!(names(&table), ["lat", "lon"], "{name}");
        assert_eq!(table.lines, lines, "{name}");
        for (column, values) in expected.iter().enumerate() {
            assert_eq!(&table.numbers(column).unwrap(), values, "{name}");
        }
    }
}

#[test]
fn a_file_without_a_header_numbers_its_columns() {
    let table = parse("a.csv", b"1,2\n3,4\n").unwrap();
    assert_eq!((names(&table), table.lines.clone()), (vec!["0", "1"], vec![1, 2]));
    assert!(!table.has_header);
    let table = parse("a.csv", b"Cat3,2\nCat3,4\n").unwrap();
    assert_eq!(names(&table), ["0", "1"]);
    assert_eq!(table.columns[0].values, Values::Text(vec!["Cat3".into(), "Cat3".into()]));
    // pandas leaves the index without a name.
    let table = parse("a.csv", b",lat\n0,2\n1,4\n").unwrap();
    assert_eq!(names(&table), ["0", "lat"]);
}

#[test]
fn quoted_fields_may_hold_delimiters_and_line_ends() {
    let table = parse("a.csv", b"who,lat\n\"a,\nb\",1\nc,2\n").unwrap();
    assert_eq!(table.columns[0].values, Values::Text(vec!["a,\nb".into(), "c".into()]));
    assert_eq!(table.lines, [2, 4]);
}

#[test]
fn what_numpy_wrote() {
    for name in ["f4_big_fortran.npy", "i2.npy", "f8_fortran.npy"] {
        let table = read_table(&golden(name)).unwrap();
        assert_eq!(names(&table), ["0", "1", "2"], "{name}");
        assert_eq!(table.lines, [1, 2], "{name}");
        for (column, values) in [[1.0, 4.0], [-2.0, 5.0], [3.0, -6.0]].iter().enumerate() {
            assert_eq!(table.numbers(column).unwrap(), values, "{name}");
        }
    }
    let table = read_table(&golden("one_dimension.npy")).unwrap();
    assert_eq!(table.numbers(0).unwrap(), [1.5, 2.5]);
}

#[test]
fn what_pyarrow_wrote() {
    for name in ["snappy.parquet", "zstd.parquet", "none.parquet"] {
        let table = read_table(&golden(name)).unwrap();
        assert_eq!(names(&table), ["lat", "lon", "n", "who", "list.list.element"], "{name}");
        assert_eq!(table.numbers(0).unwrap(), [1.5, -20.25, 30.0], "{name}");
        assert_eq!(table.numbers(2).unwrap(), [1.0, 2.0, 4294967295.0], "{name}");
        assert_eq!(table.texts(3).unwrap(), ["a", "b", "a"], "{name}");
        let gap = table.numbers(1).unwrap_err().to_string();
        assert_eq!(gap, "row 2, column 'lon': the field is empty", "{name}");
        let list = table.numbers(4).unwrap_err().to_string();
        assert_eq!(list, "column 'list.list.element' holds lists, which cannot be used here");
    }
    let table = read_table(&golden("row_groups.parquet")).unwrap();
    assert_eq!(table.numbers(1).unwrap(), [100.0, 0.5, -5.5]);
    assert_eq!(table.texts(2).unwrap(), ["a", "b", "a"]);
}

/// Their decoders take memory as the page claims, so they are not read; the file's other columns
/// are.
#[test]
fn parquet_text_in_delta_encodings_is_left_out() {
    let schema = "message schema { required double x; required binary who (STRING); }";
    for encoding in [Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_column_encoding("who".into(), encoding)
            .build();
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[1.0, 2.0], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let words = ["ab", "abc"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&words, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        let table = parse("a.parquet", &bytes).unwrap();
        assert_eq!(table.numbers(0).unwrap(), [1.0, 2.0]);
        assert_eq!(
            table.texts(1).unwrap_err().to_string(),
            "column 'who' holds text in a delta encoding, which cannot be used here"
        );
    }
}

#[test]
fn every_format_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let values = vec![0.1, -1e-300, 123456789.12345679, f64::MAX, 1.0 / 3.0, -0.0];
    let numbers = [Column::numbers("a", values.clone()), Column::numbers("b", values)];
    let words = ["plain", "a,b\tc", "\"quoted\"", "line\nend", "", "ünï"];
    let words = Column::text("who", words.iter().map(|w| (*w).to_owned()).collect());
    for extension in ["csv", "tsv", "npy", "parquet"] {
        let path = folder.path().join(format!("t.{extension}"));
        let mut columns = numbers.to_vec();
        if extension != "npy" {
            columns.push(words.clone());
        }
        write_table(&path, &columns).unwrap();
        let table = read_table(&path).unwrap();
        assert_eq!(table.format.extension(), extension);
        for (read, written) in table.columns.iter().zip(&columns) {
            assert_eq!(read.values, written.values, "{extension}");
            assert!(extension == "npy" || read.name == written.name);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "no partial files are left");
}

#[test]
fn names_that_are_numbers_do_not_turn_a_header_into_data() {
    let columns = |names: [&str; 2]| names.map(|name| Column::numbers(name, vec![7.0]));
    let text = |names| table_to_bytes(&columns(names), FileFormat::Csv).unwrap();
    assert_eq!(text(["0", "1"]), b"7.0,7.0\n");
    assert_eq!(text(["0", "log_density"]), b"column_0,log_density\n7.0,7.0\n");
}

/// Each way in which a file can be wrong, with the sentence that it gets.
#[test]
fn refusals_say_what_is_wrong() {
    let read = "read are CSV and TSV, NumPy .npy and Parquet";
    let npy = |header: &str, data: usize| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(std::iter::repeat_n(0, data));
        bytes
    };
    let damaged = |problem: &str| format!("the NumPy file is damaged or not supported: {problem}");
    let cases: Vec<(&str, Vec<u8>, String)> = vec![
        ("a.csv", vec![], "the file has no rows".into()),
        ("a.csv", b"\n\n".to_vec(), "the file has no rows".into()),
        ("a.csv", b"lat,lon\n".to_vec(), "the file has no rows".into()),
        ("a.csv", b"lat,lon\n1,2\n3\n".to_vec(), "line 3 has 1 fields, line 1 has 2".into()),
        ("a.csv", b"a,b\n1,2\n\n3,4,5\n".to_vec(), "line 4 has 3 fields, line 1 has 2".into()),
        (
            "a.csv",
            b"a,b\n1,2\n3,\xff\n".to_vec(),
            "line 3, column 2 is not UTF-8 text; save the file as UTF-8".into(),
        ),
        ("a.csv", b"\xff\xfea".to_vec(), format!("this is UTF-16 text; save it as UTF-8; {read}")),
        (
            "a.npz",
            b"PK\x03\x04".to_vec(),
            format!("this is a zip archive (.npz and .xlsx are such); {read}"),
        ),
        (
            "a.csv.gz",
            b"\x1f\x8b\x08".to_vec(),
            format!("this is compressed with gzip; unpack it first; {read}"),
        ),
        (
            "a.npy",
            b"1,2".to_vec(),
            format!("this has the name of a NumPy file, but not its first bytes; {read}"),
        ),
        (
            "a.parquet",
            b"1,2".to_vec(),
            format!("this has the name of a Parquet file, but not its first bytes; {read}"),
        ),
        ("a.bin", b"a\0b".to_vec(), format!("this is a binary file of an unknown kind; {read}")),
        ("a.npy", b"\x93NUMPY\x01".to_vec(), damaged("the file ends inside its header")),
        (
            "a.npy",
            b"\x93NUMPY\x09\x00\x00".to_vec(),
            damaged("version 9 of the format is not known"),
        ),
        ("a.npy", npy("{'shape': (1,)}", 0), damaged("the header has no 'descr'")),
        (
            "a.npy",
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4000000000, 4000000000)}", 8),
            "the file has 4000000000 columns, more than the limit of 65536".into(),
        ),
        (
            "a.npy",
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000, 2)}", 8),
            damaged("9000000000 × 2 numbers of 8 bytes are announced, 8 bytes follow"),
        ),
        (
            "a.npy",
            npy("{'descr': '<f8', 'fortran_order': Maybe, 'shape': (1,)}", 8),
            damaged("'fortran_order' of the header is neither True nor False"),
        ),
        (
            "a.npy",
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (x,)}", 8),
            damaged("'x' in the shape is not a size"),
        ),
        (
            "a.npy",
            std::fs::read(golden("three_dimensions.npy")).unwrap(),
            damaged("the array has 3 dimensions, read are 1 and 2"),
        ),
        (
            "a.npy",
            std::fs::read(golden("complex.npy")).unwrap(),
            damaged(
                "numbers of type '<c16' are not read; f2, f4, f8, i1 to i8, u1 to u8 and b1 are",
            ),
        ),
        (
            "a.npy",
            std::fs::read(golden("records.npy")).unwrap(),
            damaged("it holds records with named fields, which are not read"),
        ),
        (
            "a.parquet",
            std::fs::read(golden("gzip.parquet")).unwrap(),
            "the Parquet file is damaged or not supported: Parquet error: Disabled feature at \
             compile time: flate2"
                .into(),
        ),
    ];
    for (name, bytes, sentence) in cases {
        let error = parse(name, &bytes).unwrap_err().to_string();
        assert_eq!(error, sentence, "{name}");
    }
}

#[test]
fn limits_are_kept() {
    let limits = Limits { file_bytes: 10, columns: 3, cells: 6, text_bytes: 2 };
    let refuse = |name: &str, bytes: &[u8]| {
        table_from_bytes(Path::new(name), bytes.to_vec(), &limits).unwrap_err().to_string()
    };
    assert_eq!(refuse("a.csv", b"1,2,3,4\n"), "the file has 4 columns, more than the limit of 3");
    assert_eq!(
        refuse("a.csv", b"1,2,3\n1,2,3\n1,2,3\n"),
        "the file has 9 cells, more than the limit of 6"
    );
    let words = Column::text("who", vec!["abc".into()]);
    let parquet = table_to_bytes(&[words], FileFormat::Parquet).unwrap();
    assert_eq!(
        refuse("a.parquet", &parquet),
        "the file has 3 bytes of text, more than the limit of 2"
    );
    let many = Column::numbers("x", vec![0.0; 7]);
    let parquet = table_to_bytes(&[many], FileFormat::Parquet).unwrap();
    assert_eq!(refuse("a.parquet", &parquet), "the file has 7 cells, more than the limit of 6");
}

#[test]
fn columns_are_found_by_name_and_number() {
    let table = parse("a.csv", b"x,y,x\n1,2,3\n").unwrap();
    assert_eq!(table.find("y").unwrap(), 1);
    assert_eq!(table.find("2").unwrap(), 2);
    let error = |name: &str| table.find(name).unwrap_err().to_string();
    assert_eq!(error("x"), "2 columns are named 'x'; pick one by its number, from 0");
    assert_eq!(error("z"), "there is no column 'z'; the columns are x, y, x");
    assert_eq!(error("3"), "there is no column '3'; the columns are x, y, x");
}

#[test]
fn what_cannot_be_written_is_said() {
    let numbers = Column::numbers("x", vec![1.0]);
    let text = Column::text("who", vec!["a".into()]);
    let error =
        |columns: &[Column], format| table_to_bytes(columns, format).unwrap_err().to_string();
    assert_eq!(
        error(&[numbers.clone(), text], FileFormat::Npy),
        "column 'who' holds text, which a .npy file cannot; write .csv or .parquet"
    );
    let long = Column::numbers("y", vec![1.0, 2.0]);
    assert_eq!(
        error(&[numbers.clone(), long], FileFormat::Csv),
        "column 'y' has 2 rows, the first column has 1"
    );
    assert_eq!(
        write_table(Path::new("points.xlsx"), &[numbers]).unwrap_err().to_string(),
        "points.xlsx: 'points.xlsx' has no extension that says a format; use .csv, .tsv, .npy or .parquet"
    );
}

#[test]
fn structured_arrays_have_a_field_for_every_column() {
    let columns = [
        Column::numbers("a", vec![1.0, 2.0]),
        Column::numbers("it's", vec![f64::NEG_INFINITY, 0.5]),
    ];
    let bytes = structured_npy(&columns, (1, 2)).unwrap();
    let (header, data) = bytes.split_at(128);
    assert_eq!(&header[..12], b"\x93NUMPY\x03\x00\x74\x00\x00\x00");
    let text = std::str::from_utf8(&header[12..]).unwrap();
    assert_eq!(
        text.trim_end(),
        "{'descr': [('a', '<f8'), ('it_s', '<f8')], 'fortran_order': False, 'shape': (1, 2), }"
    );
    assert!(text.ends_with(" \n"));
    let numbers: Vec<f64> =
        data.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(numbers, [1.0, f64::NEG_INFINITY, 2.0, 0.5]);
    assert!(matches!(
        structured_npy(&columns, (2, 2)),
        Err(DataError::ColumnLength { found: 2, expected: 4, .. })
    ));
}
