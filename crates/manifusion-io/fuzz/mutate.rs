//! Mutations: of bytes, of text by fields and tokens, and of the headers of binary formats with
//! their lengths kept right.

use manifusion::rng::Stream;

pub(crate) type Mutator = fn(&mut Vec<u8>, &mut Random, &[Vec<u8>]);

/// Choices from a stream.
pub(crate) struct Random(Stream);

impl Random {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(stream)
    }

    /// 0 to n − 1; 0 for n = 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (((1.0 - self.0.uniform()) * n as f64) as usize).min(n.saturating_sub(1))
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A part of `0..len`, seldom a long one.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let most = 1 << self.below(8);
        start..(start + self.below(most + 1)).min(len)
    }
}

const NUMBERS: [i64; 18] = [
    0,
    1,
    -1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    i32::MAX as i64,
    u32::MAX as i64,
    1 << 40,
    i64::MAX,
    i64::MIN,
];

/// Changes that need no knowledge of the format.
pub(crate) fn bytes(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    let len = input.len();
    match random.below(9) {
        0 if len > 0 => input[random.below(len)] ^= 1 << random.below(8),
        1 if len > 0 => input[random.below(len)] = random.below(256) as u8,
        2 => input.insert(random.below(len + 1), random.below(256) as u8),
        3 => drop(input.drain(random.range(len))),
        4 => {
            let copied = input[random.range(len)].to_vec();
            let at = random.below(len + 1);
            input.splice(at..at, copied);
        }
        5 => input.truncate(random.below(len + 1)),
        6 => {
            let other = random.pick(corpus);
            let copied = other[random.range(other.len())].to_vec();
            let at = random.range(len);
            input.splice(at, copied);
        }
        7 => {
            let number = random.pick(&NUMBERS).to_le_bytes();
            let size = 1 << random.below(4);
            let at = random.below(len + 1);
            for (old, new) in input[at..].iter_mut().zip(&number[..size]) {
                *old = *new;
            }
        }
        _ => {
            // Small steps of one byte reach neighbouring codes of varints.
            if len > 0 {
                let at = random.below(len);
                input[at] = if random.below(2) == 0 {
                    input[at].wrapping_add(1)
                } else {
                    input[at].wrapping_sub(1)
                };
            }
        }
    }
}

const FIELDS: [&str; 40] = [
    "",
    " ",
    "0",
    "-0",
    "1",
    "-1",
    "90",
    "-90.0001",
    "180",
    "360",
    "361",
    "1e308",
    "1e309",
    "-1e-320",
    "nan",
    "-inf",
    "infinity",
    "0.1",
    "3.14159265358979",
    "1.",
    ".5",
    "+5",
    "1_000",
    "0x10",
    "1,5",
    "\"",
    "\"\"",
    "\"a",
    "a\"b",
    "'",
    "lat",
    "lon",
    "x",
    "qw",
    "r",
    "theta",
    "phi_rad",
    "\u{feff}",
    "ü",
    "#",
];

/// Changes of fields and lines.
pub(crate) fn table(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    let is_separator = |byte: &u8| matches!(byte, b',' | b'\t' | b';' | b'\n' | b'\r');
    let cuts: Vec<usize> =
        input.iter().enumerate().filter(|(_, b)| is_separator(b)).map(|(i, _)| i).collect();
    match random.below(8) {
        0..=2 if !cuts.is_empty() => {
            // One field for another.
            let which = random.below(cuts.len());
            let end = cuts[which];
            let start = if which == 0 { 0 } else { cuts[which - 1] + 1 };
            input.splice(start..end.max(start), random.pick(&FIELDS).bytes());
        }
        3 if !cuts.is_empty() => {
            input[*random.pick(&cuts)] = *random.pick(b",\t;\n\r\"");
        }
        4 => {
            // A line again, elsewhere.
            let mut lines: Vec<Vec<u8>> =
                input.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let line = random.pick(&lines).clone();
            let at = random.below(lines.len() + 1);
            if random.below(2) == 0 {
                lines.insert(at, line);
            } else if lines.len() > 1 {
                lines.remove(at.min(lines.len() - 1));
            }
            *input = lines.join(&b'\n');
        }
        5 => {
            let at = random.below(input.len() + 1);
            let text = *random.pick(&["\n", "\r\n", "\r", ",", "\"", "\n\n", ";", "\t", "\0"]);
            input.splice(at..at, text.bytes());
        }
        6 => {
            let at = random.below(input.len() + 1);
            input.splice(at..at, random.pick(&FIELDS).bytes());
        }
        _ => bytes(input, random, corpus),
    }
}

/// One of the words for another, or a change of bytes.
pub(crate) fn words(
    text: &mut Vec<u8>,
    random: &mut Random,
    corpus: &[Vec<u8>],
    vocabulary: &[&str],
) {
    if random.below(3) == 0 {
        bytes(text, random, corpus);
        return;
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-<>|".contains(&byte);
    let at = random.below(text.len() + 1);
    let start = text[..at].iter().rposition(|b| !is_word(*b)).map_or(0, |i| i + 1);
    let end = text[at..].iter().position(|b| !is_word(*b)).map_or(text.len(), |i| at + i);
    let word = random.pick(vocabulary).bytes();
    if random.below(4) == 0 {
        text.splice(at..at, word);
    } else {
        text.splice(start..end, word);
    }
}

const NPY: [&str; 34] = [
    "<f8",
    ">f8",
    "<f4",
    ">f4",
    "<f2",
    "|i1",
    "|u1",
    "<i2",
    ">i4",
    "<i8",
    ">u8",
    "|b1",
    "<c16",
    "|S5",
    "<U3",
    "=f8",
    "f8",
    "True",
    "False",
    "0",
    "1",
    "2",
    "3",
    "8",
    "1000000",
    "18446744073709551615",
    "9223372036854775807",
    "-1",
    "descr",
    "shape",
    "fortran_order",
    "(",
    ")",
    "'",
];

/// The header's text with its length kept right, or anything.
pub(crate) fn npy(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    let length = |b: &[u8]| usize::from(u16::from_le_bytes([b[8], b[9]]));
    if input.len() < 10 || random.below(3) == 0 || 10 + length(input) > input.len() {
        bytes(input, random, corpus);
        return;
    }
    let end = 10 + length(input);
    let mut header = input[10..end].to_vec();
    words(&mut header, random, corpus, &NPY);
    let size = (header.len() as u16).to_le_bytes();
    let claimed = claimed_bytes(&header);
    input.splice(8..end, size.into_iter().chain(header.clone()));
    if let Some(claimed) = claimed.filter(|_| random.below(2) == 0) {
        input.resize(10 + header.len() + claimed, 0x3f);
    }
}

/// The bytes of data that a header claims, if they are few: the product of the numbers in its
/// parentheses times the digit of its type.
fn claimed_bytes(header: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(header).ok()?;
    let shape = text.split_once('(')?.1.split_once(')')?.0;
    let sizes = shape.split(',').map(str::trim).filter(|part| !part.is_empty());
    let count = sizes
        .map(|part| part.parse::<usize>().ok())
        .try_fold(1usize, |product, size| product.checked_mul(size?))?;
    let size = text.chars().find(char::is_ascii_digit)?.to_digit(10)? as usize;
    count.checked_mul(size).filter(|&bytes| bytes <= 1 << 12)
}

/// The footer with its length kept right, or the pages.
pub(crate) fn parquet(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    let footer = |b: &[u8]| {
        let n = b.len();
        let length = u32::from_le_bytes([b[n - 8], b[n - 7], b[n - 6], b[n - 5]]) as usize;
        (n - 8).checked_sub(length)
    };
    let start = if input.len() < 12 { None } else { footer(input) };
    let Some(start) = start.filter(|_| random.below(8) > 0) else {
        bytes(input, random, corpus);
        return;
    };
    let end = input.len() - 8;
    if random.below(2) == 0 {
        let mut footer = input[start..end].to_vec();
        bytes(&mut footer, random, corpus);
        let size = (footer.len() as u32).to_le_bytes();
        input.truncate(start);
        input.extend(footer);
        input.extend(size);
        input.extend(b"PAR1");
    } else {
        // The pages keep their length, so that the footer's offsets still hold.
        let mut pages = input[4.min(start)..start].to_vec();
        let before = pages.len();
        bytes(&mut pages, random, corpus);
        pages.resize(before, 0);
        input.splice(4.min(start)..start, pages);
    }
}

const JSON: [&str; 34] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "1e9",
    "1e400",
    "4294967295",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "null",
    "true",
    "false",
    "\"\"",
    "{}",
    "[]",
    "[[[[[[[[",
    "F32",
    "F64",
    "BF16",
    "I64",
    "BOOL",
    "dtype",
    "shape",
    "data_offsets",
    "__metadata__",
    "manifusion",
    "format_version",
    "config",
    "adam",
    "ema",
    "extra",
    "weights",
];

/// The JSON header with its length kept right, the JSON text inside it, or the numbers after it.
pub(crate) fn safetensors(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    let header = input.first_chunk::<8>().map(|l| u64::from_le_bytes(*l) as usize);
    let Some(end) = header.and_then(|l| l.checked_add(8)).filter(|&end| end <= input.len()) else {
        bytes(input, random, corpus);
        return;
    };
    let mut text = input[8..end].to_vec();
    match random.below(6) {
        0 => return bytes(input, random, corpus),
        1 if end < input.len() => {
            let at = end + random.below(input.len() - end);
            input[at] = random.below(256) as u8;
            return;
        }
        2..=3 => {
            if inner_json(&mut text, random, corpus).is_none() {
                words(&mut text, random, corpus, &JSON);
            }
        }
        _ => words(&mut text, random, corpus, &JSON),
    }
    let size = (text.len() as u64).to_le_bytes();
    input.splice(..end, size.into_iter().chain(text));
}

/// Changes a value of our own header, which is JSON inside a string of the JSON header.
fn inner_json(text: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) -> Option<()> {
    let mut outer: serde_json::Value = serde_json::from_slice(text).ok()?;
    let inner = outer.get_mut("__metadata__")?.get_mut("manifusion")?;
    let mut own = inner.as_str()?.as_bytes().to_vec();
    words(&mut own, random, corpus, &JSON);
    *inner = String::from_utf8(own).ok()?.into();
    *text = serde_json::to_vec(&outer).ok()?;
    Some(())
}

const TOML: [&str; 32] = [
    "=",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "\"",
    "\"\"\"",
    "'''",
    "#",
    "\n",
    ".",
    ",",
    "true",
    "nan",
    "-inf",
    "1e400",
    "0x",
    "0b2",
    "1979-05-27T07:32:00Z",
    "9223372036854775808",
    "-0",
    "1_0",
    "seed",
    "fractions",
    "dedup",
    "form",
    "format",
    "names",
    "latlon*",
    "\\u",
];

pub(crate) fn toml(input: &mut Vec<u8>, random: &mut Random, corpus: &[Vec<u8>]) {
    words(input, random, corpus, &TOML);
}
