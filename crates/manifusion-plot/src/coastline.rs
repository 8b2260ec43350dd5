//! The embedded coastlines: Natural Earth 1:110m (public domain), simplified by
//! `reference/coastline.py`.

use std::sync::LazyLock;

const FILE: &[u8] = include_bytes!("../assets/coastline.bin");

static LINES: LazyLock<Vec<Vec<[f64; 2]>>> = LazyLock::new(|| decode(FILE).unwrap_or_default());

/// Polylines of (longitude, latitude) in degrees; none crosses the antimeridian.
pub fn coastlines() -> &'static [Vec<[f64; 2]>] {
    &LINES
}

/// u16 number of lines; per line u16 number of points, then (i16 lon, i16 lat) in 0.01°.
fn decode(file: &[u8]) -> Option<Vec<Vec<[f64; 2]>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asset_is_the_whole_world() {
        let lines = coastlines();
        assert!(lines.len() > 100, "{} lines", lines.len());
        let points: Vec<_> = lines.iter().flatten().collect();
        assert!(points.iter().all(|p| p[0].abs() <= 180.0 && p[1].abs() <= 90.0));
        // Cape Town and the Strait of Gibraltar lie within two degrees of a vertex.
        for [lon, lat] in [[18.4, -33.9], [-5.6, 36.0]] {
            assert!(points.iter().any(|p| (p[0] - lon).hypot(p[1] - lat) < 2.0));
        }
        for line in lines {
            for pair in line.windows(2) {
                assert!((pair[0][0] - pair[1][0]).abs() < 180.0);
            }
        }
    }

    #[test]
    fn a_cut_file_is_refused() {
        assert!(decode(&FILE[..FILE.len() - 2]).is_none());
    }
}
