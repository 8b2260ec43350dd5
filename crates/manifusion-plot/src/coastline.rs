//! The embedded coastlines: Natural Earth 1:110m (public domain), simplified by
//! `reference/coastline.py`.

use std::sync::LazyLock;

/// The coastlines as [`decode`] reads them.
pub const FILE: &[u8] = include_bytes!("../assets/coastline.bin");

static LINES: LazyLock<Vec<Vec<[f64; 2]>>> = LazyLock::new(|| decode(FILE).unwrap_or_default());

/// Polylines of (longitude, latitude) in degrees; none crosses the antimeridian.
pub fn coastlines() -> &'static [Vec<[f64; 2]>] {
    &LINES
}

/// u16 number of lines; per line u16 number of points, then (i16 lon, i16 lat) in 0.01°.
pub fn decode(file: &[u8]) -> Option<Vec<Vec<[f64; 2]>>> {
    let mut numbers = file.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]]));
    let lines = numbers.next()? as u16;
    (0..lines)
        .map(|_| {
            let points = numbers.next()? as u16;
            (0..points)
                .map(|_| {
                    let (lon, lat) = (numbers.next()?, numbers.next()?);
                    Some([f64::from(lon) / 100.0, f64::from(lat) / 100.0])
                })
                .collect()
        })
        .collect()
}
