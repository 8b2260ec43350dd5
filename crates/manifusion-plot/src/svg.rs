//! A small SVG writer: what the pictures need and no more.

use std::fmt::Write as _;

use crate::text;

/// Text colour, and that of axes.
pub(crate) const INK: &str = "#1b1b1f";
/// Secondary lines and texts.
pub(crate) const SOFT: &str = "#5f6368";
/// Colour of data points.
pub(crate) const DATA: &str = "#e8452c";
/// Colour of samples on a light ground.
pub(crate) const SAMPLES: &str = "#2166ac";

/// Sizes of text at a width of 900.
pub(crate) const TITLE: f64 = 19.0;
/// See [`TITLE`].
pub(crate) const LABEL: f64 = 15.0;
/// See [`TITLE`].
pub(crate) const TICK: f64 = 14.0;

/// The elements of a picture in drawing order, in units of a picture 900 wide.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
    ids: usize,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A coordinate with at most two decimals.
pub(crate) fn coordinate(v: f64) -> String {
    let text = format!("{v:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML, whichever way they are written.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

impl Svg {
    pub(crate) fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, text: &str) {
        self.styled_text(x, y, anchor, size, INK, "", text);
    }

    /// A text read from below, around its point.
    pub(crate) fn vertical_text(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let turn = format!(" transform=\"rotate(-90 {} {})\"", coordinate(x), coordinate(y));
        self.styled_text(x, y, Anchor::Middle, size, INK, &turn, text);
    }

    #[expect(clippy::too_many_arguments, reason = "each is an attribute of one element")]
    pub(crate) fn styled_text(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        size: f64,
        fill: &str,
        more: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.raw(&format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{fill}\"{anchor}{more}>{}</text>",
            coordinate(x),
            coordinate(y),
            coordinate(size),
            escape(text)
        ));
    }

    /// The title of a picture, made to fit the width.
    pub(crate) fn title(&mut self, width: f64, title: &str) {
        let (text, size) = text::fit(title, TITLE, 13.0, width - 40.0);
        self.text(width / 2.0, 30.0, Anchor::Middle, size, &text);
    }

    /// A rectangle by corner and sides.
    pub fn rect(&mut self, [x, y, w, h]: [f64; 4], style: &str) {
        let [x, y, w, h] = [x, y, w, h].map(coordinate);
        self.raw(&format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" {style}/>"));
    }

    pub(crate) fn circle(&mut self, [x, y]: [f64; 2], r: f64, style: &str) {
        let [x, y, r] = [x, y, r].map(coordinate);
        self.raw(&format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {style}/>"));
    }

    /// Open or closed polylines as one path.
    pub(crate) fn paths<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a [[f64; 2]]>,
        closed: bool,
        style: &str,
    ) {
        let d = path_data(lines, closed);
        if !d.is_empty() {
            self.raw(&format!("<path d=\"{d}\" {style}/>"));
        }
    }

    /// Round dots as one path: strokes of almost no length.
    pub(crate) fn dots(
        &mut self,
        points: impl IntoIterator<Item = [f64; 2]>,
        diameter: f64,
        style: &str,
    ) {
        let mut d = String::new();
        for [x, y] in points.into_iter().filter(|p| p.iter().all(|v| v.is_finite())) {
            let _ = write!(d, "M{},{}h.01", coordinate(x), coordinate(y));
        }
        if !d.is_empty() {
            let width = coordinate(diameter);
            self.raw(&format!(
                "<path d=\"{d}\" fill=\"none\" stroke-linecap=\"round\" stroke-width=\"{width}\" {style}/>"
            ));
        }
    }

    /// A PNG, stretched smoothly into a box.
    pub(crate) fn image(&mut self, [x, y, w, h]: [f64; 4], png: &[u8]) {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let [x, y, w, h] = [x, y, w, h].map(coordinate);
        self.raw(&format!(
            "<image x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" preserveAspectRatio=\"none\" \
             href=\"data:image/png;base64,{data}\"/>"
        ));
    }

    /// Runs `draw` inside a clip of this shape (an SVG element).
    pub fn clipped(&mut self, shape: &str, draw: impl FnOnce(&mut Self)) {
        let id = self.fresh_id();
        self.raw(&format!("<clipPath id=\"{id}\">{shape}</clipPath><g clip-path=\"url(#{id})\">"));
        draw(self);
        self.raw("</g>");
    }

    /// An id that no other element of this picture has.
    pub(crate) fn fresh_id(&mut self) -> String {
        self.ids += 1;
        format!("{ID_PREFIX}{}", self.ids)
    }

    /// The elements alone.
    pub(crate) fn into_body(self) -> String {
        self.body
    }
}

/// Begins every id, so that a page that holds several pictures can tell theirs apart by replacing
/// it.
pub(crate) const ID_PREFIX: &str = "mf-id-";

pub(crate) fn path_data<'a>(
    lines: impl IntoIterator<Item = &'a [[f64; 2]]>,
    closed: bool,
) -> String {
    let mut d = String::new();
    for line in lines {
        if line.len() < 2 {
            continue;
        }
        for (i, [x, y]) in line.iter().enumerate() {
            let letter = if i == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{letter}{},{}", coordinate(*x), coordinate(*y));
        }
        if closed {
            d.push('Z');
        }
    }
    d
}
