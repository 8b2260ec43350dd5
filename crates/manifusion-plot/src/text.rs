//! The embedded font: its bytes, and how wide a text is in it.

use std::sync::LazyLock;

use ttf_parser::Face;

/// Name of the embedded font, as pictures ask for it.
pub(crate) const FAMILY: &str = "DejaVu Sans";
/// A subset of DejaVu Sans: Latin, Greek, sub- and superscripts, some mathematics.
pub(crate) const FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// The font of all texts.
pub static FACE: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(FONT, 0).ok());

/// Width of a text set in `size` pixels.
pub fn width(text: &str, size: f64) -> f64 {
    let advance = |c: char| {
        let face = FACE.as_ref()?;
        let units = face.glyph_hor_advance(face.glyph_index(c)?)?;
        Some(f64::from(units) / f64::from(face.units_per_em()))
    };
    // A character that the font lacks is drawn as a box of about this width.
    text.chars().map(|c| advance(c).unwrap_or(0.6)).sum::<f64>() * size
}

/// The text and size that fit into `room` pixels: first smaller, down to `smallest`, then cut with
/// an ellipsis.
pub fn fit(text: &str, size: f64, smallest: f64, room: f64) -> (String, f64) {
    let full = width(text, size);
    if full <= room {
        return (text.to_string(), size);
    }
    let shrunk = size * room / full;
    if shrunk >= smallest {
        return (text.to_string(), shrunk);
    }
    let mut kept = text.to_string();
    while kept.pop().is_some() {
        let cut = format!("{}…", kept.trim_end());
        if width(&cut, smallest) <= room {
            return (cut, smallest);
        }
    }
    (kept, smallest)
}

/// A @font-face rule that carries the font.
pub(crate) fn font_face() -> String {
    use base64::Engine as _;
    let font = base64::engine::general_purpose::STANDARD.encode(FONT);
    format!("@font-face{{font-family:'{FAMILY}';src:url(data:font/ttf;base64,{font})}}")
}

/// A number with `decimals` places and a real minus sign.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
    if is_zero { text.trim_start_matches('-').to_string() } else { text.replace('-', "−") }
}
