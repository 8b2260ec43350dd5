//! The readers and their seeds.

use manifusion::checkpoint::Checkpoint;
use manifusion::manifold::{Manifold, parse};
use manifusion::nn::{Mlp, NetConfig};
use manifusion::optim::{Adam, AdamConfig, Ema};
use manifusion::points::{Split, SplitSettings, duplicates};
use manifusion_io::{
    Column, DataError, FileFormat, Limits, LoadOptions, OutputForm, dataset_from_table,
    point_columns, table_from_bytes, table_to_bytes,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::{Target, mutate};

/// What is fuzzed. A reader elsewhere (the configuration of the command line) joins by one more
/// entry.
pub(crate) fn targets() -> Vec<Target> {
    vec![
        Target {
            name: "csv",
            seeds: csv_seeds,
            mutate: mutate::table,
            read: |b| table("a.csv", b),
        },
        Target {
            name: "tsv",
            seeds: tsv_seeds,
            mutate: mutate::table,
            read: |b| table("a.tsv", b),
        },
        Target { name: "npy", seeds: npy_seeds, mutate: mutate::npy, read: |b| table("a.npy", b) },
        Target {
            name: "parquet",
            seeds: parquet_seeds,
            mutate: mutate::parquet,
            read: |b| table("a.parquet", b),
        },
        Target {
            name: "safetensors",
            seeds: checkpoint_seeds,
            mutate: mutate::safetensors,
            read: checkpoint,
        },
        Target { name: "toml", seeds: toml_seeds, mutate: mutate::toml, read: toml_text },
    ]
}

/// Small, so that a claim that passes them cannot make a run slow.
const LIMITS: Limits =
    Limits { file_bytes: 1 << 20, columns: 1 << 10, cells: 1 << 16, text_bytes: 1 << 20 };

static MANIFOLDS: LazyLock<Vec<Arc<dyn Manifold>>> = LazyLock::new(|| {
    ["sphere:2", "torus:2", "so:3", "hyperbolic:2", "euclidean:1", "sphere:2*torus:1"]
        .iter()
        .map(|spec| parse(spec).expect("a valid manifold"))
        .collect()
});

/// A sentence without its numbers, up to the first quotation.
fn kind(sentence: &str) -> String {
    let unquoted = sentence.split(['\'', '"', '`']).next().unwrap_or_default();
    unquoted.chars().filter(|c| !c.is_ascii_digit()).take(200).collect()
}

/// The kind of a problem, without what comes from the file.
fn problem_kind(problem: &DataError) -> String {
    let debug = format!("{problem:?}");
    let name = debug.split([' ', '{', '(']).next().unwrap_or_default();
    let detail = match problem {
        DataError::Binary { problem, .. } | DataError::Field { problem, .. } => kind(problem),
        DataError::Rows(bad) => {
            let shape = |c: char| c.is_ascii_digit() || "+-.e".contains(c);
            let first = bad.first.first().map_or("", |(_, problem)| problem);
            let words: Vec<&str> = first.split(' ').filter(|word| !word.contains(shape)).collect();
            format!("{} {}", words.join(" "), bad.hint.is_some())
        }
        DataError::Ambiguous { candidates, .. } => candidates.clone(),
        _ => String::new(),
    };
    format!("{name} {detail}")
}

/// Reads a table, and as points of a manifold; what is accepted must be on the manifold and be
/// written again.
fn table(name: &str, bytes: &[u8]) -> String {
    let table = match table_from_bytes(Path::new(name), bytes.to_vec(), &LIMITS) {
        Ok(table) => table,
        Err(problem) => return problem_kind(&problem),
    };
    let shape =
        format!("ok, {} columns, 2^{} rows", table.columns.len().min(20), table.rows().ilog2());
    // Mutations move inputs from one manifold to the next.
    let manifold = &MANIFOLDS[bytes.len() % MANIFOLDS.len()];
    let options = LoadOptions::default();
    let data = match dataset_from_table(table, manifold, &options, String::new()) {
        Ok(data) => data,
        Err(problem) => return format!("{shape}, {}", problem_kind(&problem)),
    };
    for point in data.points.rows().rows() {
        manifold.check_point(point).expect("an accepted row is on the manifold");
    }
    let columns = point_columns(data.points.coordinates(), manifold.as_ref(), &data.output)
        .expect("what was read can be written");
    table_to_bytes(&columns, FileFormat::Csv).expect("numbers can be written");
    let report = duplicates(data.points.coordinates(), manifold.ambient_dim());
    assert_eq!(report.distinct + report.repeated_rows, data.rows());
    let split = Split::of(&data.points, SplitSettings::default());
    format!("{shape}, {} {} {}", manifold.name(), data.output.form, split.is_ok())
}

fn csv_seeds() -> Vec<Vec<u8>> {
    [
        "lat,lon\n31.100,35.500\n-18.7,-45.3\n",
        "phi,psi\r\n-108.587,120.193\r\n-116.9,130.8\r\n",
        "qw,qx,qy,qz\n0.5242745,0.5986632,0.1457779,0.5877818\n1,0,0,0\n",
        "network,r,theta\nCat3,6.87398,5.22473\nRat,6.85195,5.17969\n",
        "\u{feff}\"x\",\"y\",\"z\"\n0.6,0,0.8\n\n\"0\",1,0\n",
        "1,0,0,0,1,0,0,0,1\n",
        "1;2\n3;120\n",
        "# x\n1\n2\n3\n",
        "phi1,Phi,phi2\n10,20,300\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([format!("lat,lon\n{}", "1.5,2\n".repeat(40)).into_bytes()])
    .collect()
}

fn tsv_seeds() -> Vec<Vec<u8>> {
    let tabs = |seed: Vec<u8>| seed.iter().map(|b| if *b == b',' { b'\t' } else { *b }).collect();
    csv_seeds().into_iter().map(tabs).collect()
}

fn npy_seeds() -> Vec<Vec<u8>> {
    let array = |descr: &str, fortran: &str, shape: &str, data: &[u8]| {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    };
    let numbers: Vec<u8> =
        [0.6, 0.0, 0.8, 0.0, 1.0, 0.0f64].iter().flat_map(|v| v.to_le_bytes()).collect();
    let floats: Vec<u8> =
        [10.0, 120.5, -30.0, 2.0f32].iter().flat_map(|v| v.to_be_bytes()).collect();
    let mut version2 = b"\x93NUMPY\x02\x00".to_vec();
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}\n";
    version2.extend((header.len() as u32).to_le_bytes());
    version2.extend(header.bytes());
    version2.extend(&numbers);
    let column = Column::numbers("a", vec![1.0, 2.0, 3.0]);
    vec![
        array("<f8", "False", "(2, 3)", &numbers),
        array("<f8", "True", "(3, 2)", &numbers),
        array(">f4", "False", "(2, 2)", &floats),
        array("<i2", "False", "(8,)", &floats),
        array("|b1", "False", "(16, 1)", &floats),
        version2,
        table_to_bytes(&[column.clone(), column], FileFormat::Npy).expect("numbers can be written"),
    ]
}

/// Files of all encodings and both page versions, with and without nulls, dictionaries and
/// compression.
fn parquet_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for compression in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())]
    {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for encoding in [
                None,
                Some(Encoding::PLAIN),
                Some(Encoding::DELTA_BINARY_PACKED),
                Some(Encoding::BYTE_STREAM_SPLIT),
            ] {
                let properties = WriterProperties::builder()
                    .set_compression(compression)
                    .set_writer_version(version)
                    .set_dictionary_enabled(encoding.is_none());
                let properties = match encoding {
                    Some(Encoding::DELTA_BINARY_PACKED) => properties
                        .set_column_encoding("n".into(), Encoding::DELTA_BINARY_PACKED)
                        .set_column_encoding("k".into(), Encoding::DELTA_BINARY_PACKED)
                        .set_column_encoding("who".into(), Encoding::DELTA_BYTE_ARRAY),
                    Some(Encoding::BYTE_STREAM_SPLIT) => properties
                        .set_column_encoding("lat".into(), Encoding::BYTE_STREAM_SPLIT)
                        .set_column_encoding("lon".into(), Encoding::BYTE_STREAM_SPLIT)
                        .set_column_encoding("who".into(), Encoding::PLAIN),
                    Some(encoding) => properties.set_encoding(encoding),
                    None => properties,
                };
                seeds.push(parquet_file(properties.build()).expect("a valid file"));
            }
        }
    }
    let column = |name: &str| Column::numbers(name, vec![0.0; 30]);
    let plain = table_to_bytes(&[column("lat"), column("lon")], FileFormat::Parquet);
    seeds.push(plain.expect("numbers can be written"));
    seeds
}

fn parquet_file(properties: WriterProperties) -> parquet::errors::Result<Vec<u8>> {
    let schema = parse_message_type(
        "message schema { required double lat; optional float lon; required int32 n; optional int64 k;
         required binary who (STRING); }",
    )?;
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
    for _ in 0..2 {
        let mut group = file.next_row_group()?;
        let mut column = group.next_column()?.expect("lat");
        column.typed::<DoubleType>().write_batch(&[1.5, -20.25, 30.0, 1.5], None, None)?;
        column.close()?;
        let mut column = group.next_column()?.expect("lon");
        column.typed::<FloatType>().write_batch(&[100.0, 0.5, -5.5], Some(&[1, 1, 0, 1]), None)?;
        column.close()?;
        let mut column = group.next_column()?.expect("n");
        column.typed::<Int32Type>().write_batch(&[1, -2, 3, i32::MAX], None, None)?;
        column.close()?;
        let mut column = group.next_column()?.expect("k");
        column.typed::<Int64Type>().write_batch(&[7, i64::MIN], Some(&[0, 1, 0, 1]), None)?;
        column.close()?;
        let mut column = group.next_column()?.expect("who");
        let words = ["ab", "abc", "", "ab"].map(ByteArray::from);
        column.typed::<ByteArrayType>().write_batch(&words, None, None)?;
        column.close()?;
        group.close()?;
    }
    file.close()?;
    Ok(bytes)
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let net = || {
        let config = NetConfig { width: 4, depth: 2, ..NetConfig::paper_sphere(3) };
        Mlp::<f32>::new(config, 1).expect("a valid network")
    };
    let plain = Checkpoint::new(net());
    let mut full = Checkpoint::new(net());
    let weights = full.net.params().to_vec();
    full.adam = Adam::new(AdamConfig::default(), weights.len()).ok();
    full.ema = Ema::new(0.99, &weights).ok();
    full.extra.insert("step".into(), 7.into());
    full.extra_tensors.insert("flow".into(), vec![1.0, 2.0]);
    [plain, full].iter().map(|c| c.to_bytes().expect("a valid checkpoint")).collect()
}

fn checkpoint(bytes: &[u8]) -> String {
    match Checkpoint::<f32>::from_bytes(bytes) {
        Err(problem) => kind(&problem.to_string()),
        Ok(checkpoint) => {
            // Not the same bytes (keys may be in another order or be dropped), but a valid file.
            checkpoint.to_bytes().expect("what was read can be written");
            format!("ok, {} {}", checkpoint.adam.is_some(), checkpoint.ema.is_some())
        }
    }
}

#[derive(serde::Deserialize)]
struct Settings {
    split: Option<SplitSettings>,
    output: Option<OutputForm>,
}

fn toml_seeds() -> Vec<Vec<u8>> {
    [
        "[split]\nfractions = [0.8, 0.1, 0.1]\nseed = 3\ndedup = true\n",
        "[output]\nform = \"latlon*angles-deg\"\nnames = [\"lat\", \"lon\"]\nformat = \"csv\"\n",
        "split = { seed = 1 } # comment\noutput.form = 'xyz'\noutput.format = \"npy\"\n",
        "a = 1979-05-27T07:32:00Z\nb = [[1, 2], [\"x\"]]\n[c.d]\ne = \"\"\"\nlines\n\"\"\"\n[[f]]\ng = 0xff\n[[f]]\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}

fn toml_text(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "not UTF-8".to_owned() };
    match toml::from_str::<Settings>(text) {
        Err(problem) => kind(problem.message()),
        Ok(settings) => {
            let points: Vec<f64> = (0..20).map(f64::from).collect();
            let split = settings.split.map(|s| Split::new(&points, 1, None, s).is_ok());
            format!("ok, {split:?} {}", settings.output.is_some())
        }
    }
}
