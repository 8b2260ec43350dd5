//! Colours of values: viridis, which is perceptually uniform, with a bar that explains them.

use crate::error::{PlotError, Result};
use crate::svg::{Anchor, INK, LABEL, Svg, TICK, coordinate};
use crate::ticks::Ticks;

/// Shades of the palette of a raster; one more index is left for "nothing here".
const SHADES: usize = 255;
/// Height of the strip of a colour bar.
const STRIP: f64 = 14.0;

/// Maps values in `[low, high]` to colours; what lies below takes the lowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether values below `low` occur, which the bar then says.
    pub(crate) cut: bool,
}

impl Scale {
    /// Position of a value in [0, 1].
    pub(crate) fn position(&self, value: f64) -> f64 {
        let span = self.high - self.low;
        if span > 0.0 { ((value - self.low) / span).clamp(0.0, 1.0) } else { 1.0 }
    }

    pub(crate) fn hex(&self, value: f64) -> String {
        viridis(self.position(value))
    }

    fn shade(&self, value: f64) -> u8 {
        (self.position(value) * (SHADES - 1) as f64).round() as u8
    }

    /// The colours from low to high in a strip 14 high.
    pub(crate) fn strip(svg: &mut Svg, [x, y, width]: [f64; 3]) {
        let id = svg.fresh_id();
        let stops: Vec<String> = (0..=32)
            .map(|i| {
                let t = f64::from(i) / 32.0;
                let offset = coordinate(t * 100.0);
                format!("<stop offset=\"{offset}%\" stop-color=\"{}\"/>", viridis(t))
            })
            .collect();
        svg.raw(&format!("<linearGradient id=\"{id}\">{}</linearGradient>", stops.concat()));
        let style = format!("fill=\"url(#{id})\" stroke=\"{INK}\" stroke-width=\"0.8\"");
        svg.rect([x, y, width, STRIP], &style);
    }

    /// A horizontal bar with ticks and a label beneath, about 52 high.
    pub(crate) fn bar(&self, svg: &mut Svg, [x, y, width]: [f64; 3], label: &str) {
        Self::strip(svg, [x, y, width]);
        let height = STRIP;
        if self.cut {
            let tip = [[x, y], [x - 12.0, y + height / 2.0], [x, y + height]];
            let style = format!("fill=\"{}\" stroke=\"{INK}\" stroke-width=\"0.8\"", viridis(0.0));
            svg.paths([&tip[..]], true, &style);
        }
        let ticks = Ticks::new(self.low, self.high, (width / 90.0) as usize);
        for (value, text) in ticks.labels() {
            let at = x + width * self.position(value);
            svg.paths(
                [&[[at, y + height], [at, y + height + 5.0]][..]],
                false,
                &format!("stroke=\"{INK}\" stroke-width=\"1\""),
            );
            svg.text(at, y + height + 20.0, Anchor::Middle, TICK, &text);
        }
        svg.text(x + width / 2.0, y + height + 40.0, Anchor::Middle, LABEL, label);
    }
}

/// The colour map.
pub(crate) fn viridis(t: f64) -> String {
    format!("#{:x}", colorous::VIRIDIS.eval_continuous(t))
}

/// An indexed PNG: one value per pixel row by row from the top, `None` being transparent.
pub(crate) fn png(
    width: usize,
    height: usize,
    scale: &Scale,
    value: impl Fn(usize, usize) -> Option<f64>,
) -> Result<Vec<u8>> {
    let failed = |e: png::EncodingError| PlotError::Raster(e.to_string());
    let mut palette = Vec::with_capacity(3 * 256);
    for i in 0..SHADES {
        let colour = colorous::VIRIDIS.eval_continuous(i as f64 / (SHADES - 1) as f64);
        palette.extend([colour.r, colour.g, colour.b]);
    }
    palette.extend([0, 0, 0]);
    let mut opacity = vec![255; SHADES];
    opacity.push(0);
    let pixels: Vec<u8> = (0..height)
        .flat_map(|row| (0..width).map(move |column| (column, row)))
        .map(|(column, row)| value(column, row).map_or(SHADES as u8, |v| scale.shade(v)))
        .collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    encoder.set_trns(opacity);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}
