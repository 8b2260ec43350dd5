//! A finished picture: one SVG, from which the PNG is made, so that both show the same.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use resvg::usvg::{self, fontdb};
use resvg::{render, tiny_skia};

use crate::error::{PlotError, Result, check_writable, write_file};
use crate::svg::{Anchor, ID_PREFIX, Svg, TITLE, coordinate, escape};
use crate::text;

/// Narrowest picture, in pixels.
pub const MIN_SIDE: u32 = 64;
/// Widest and highest picture, in pixels.
pub const MAX_SIDE: u32 = 20_000;
/// Width in which every picture is laid out; other widths scale it, texts included.
pub(crate) const LAYOUT_WIDTH: f64 = 900.0;

/// A picture of some width in pixels, whose height follows from what it shows.
#[derive(Clone, Debug)]
pub struct Picture {
    body: String,
    title: String,
    layout_height: f64,
    width: u32,
    height: u32,
}

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(text::FONT.to_vec());
    Arc::new(fonts)
});

fn check_side(found: u32, side: &'static str) -> Result<()> {
    if (MIN_SIDE..=MAX_SIDE).contains(&found) {
        return Ok(());
    }
    Err(PlotError::Size { found, side, min: MIN_SIDE, max: MAX_SIDE })
}

/// An error unless a picture may be this wide.
pub(crate) fn check_width(width: u32) -> Result<()> {
    check_side(width, "wide")
}

impl Picture {
    #[doc(hidden)]
    pub fn new(svg: Svg, title: &str, layout_height: f64, width: u32) -> Result<Self> {
        check_width(width)?;
        let height = (f64::from(width) * layout_height / LAYOUT_WIDTH).round() as u32;
        check_side(height, "high")?;
        let title = title.to_string();
        Ok(Self { body: svg.into_body(), title, layout_height, width, height })
    }

    /// Pictures in rows of `columns` under a title. Each is shrunk to its column, without the empty
    /// margins of `margin` units of 900 to its left and right; those of a row begin at the same
    /// height.
    pub fn side_by_side(
        title: &str,
        pictures: &[Self],
        columns: usize,
        margin: f64,
        width: u32,
    ) -> Result<Self> {
        if pictures.is_empty() || columns == 0 {
            let needs = "at least one picture and one column";
            return Err(PlotError::Missing { kind: String::from("pictures side by side"), needs });
        }
        let columns = columns.min(pictures.len());
        let cell = LAYOUT_WIDTH / columns as f64;
        let scale = cell / (LAYOUT_WIDTH - 2.0 * margin);
        let mut svg = Svg::default();
        // Half as large again as the titles of the pictures.
        let size = (1.5 * scale * TITLE).min(TITLE);
        let (fitted, size) = text::fit(title, size, 0.5 * size, LAYOUT_WIDTH - 40.0);
        svg.text(LAYOUT_WIDTH / 2.0, 1.6 * size, Anchor::Middle, size, &fitted);
        let mut top = (2.4 * size).round();
        for (row, pictures_of_row) in pictures.chunks(columns).enumerate() {
            for (column, picture) in pictures_of_row.iter().enumerate() {
                let key = format!("{ID_PREFIX}{row}-{column}-");
                let left = cell * column as f64 - scale * margin;
                svg.raw(&format!(
                    "<g transform=\"translate({} {}) scale({scale:.6})\">\n{}</g>",
                    coordinate(left),
                    coordinate(top),
                    picture.body.replace(ID_PREFIX, &key)
                ));
            }
            let tallest = pictures_of_row.iter().map(|p| p.layout_height).fold(0.0, f64::max);
            top += scale * tallest + 8.0;
        }
        Self::new(svg, title, top.round(), width)
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The whole SVG file, its font included.
    pub fn to_svg(&self) -> String {
        let style = format!("<style>{}</style>", text::font_face());
        self.document(&style, &format!(" width=\"{}\" height=\"{}\"", self.width, self.height))
    }

    /// The SVG element for a page that brings the font itself; `key` keeps its ids apart from other
    /// pictures'.
    pub fn to_inline_svg(&self, key: &str) -> String {
        self.document("", "").replace(ID_PREFIX, &format!("{ID_PREFIX}{key}-"))
    }

    fn document(&self, style: &str, size: &str) -> String {
        let Self { body, title, layout_height, .. } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"{size} viewBox=\"0 0 {LAYOUT_WIDTH} {layout_height}\" \
             font-family=\"'{family}',Verdana,sans-serif\" role=\"img\">\n<title>{title}</title>\n{style}\
             <rect width=\"{LAYOUT_WIDTH}\" height=\"{layout_height}\" fill=\"#ffffff\"/>\n{body}</svg>\n",
            family = text::FAMILY,
            title = escape(title),
        )
    }

    /// The PNG file, drawn from the SVG.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let options = usvg::Options {
            font_family: text::FAMILY.to_string(),
            fontdb: Arc::clone(&FONTS),
            ..usvg::Options::default()
        };
        let failed = |e: &dyn std::fmt::Display| PlotError::Raster(e.to_string());
        let tree =
            usvg::Tree::from_str(&self.document("", ""), &options).map_err(|e| failed(&e))?;
        let mut pixels = tiny_skia::Pixmap::new(self.width, self.height)
            .ok_or_else(|| failed(&"not enough memory"))?;
        let scale = self.width as f32 / LAYOUT_WIDTH as f32;
        render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
        pixels.encode_png().map_err(|e| failed(&e))
    }

    /// Writes `.svg` or `.png`, by the ending of the name.
    pub fn save(&self, path: &Path) -> Result<()> {
        match Format::of(path)? {
            Format::Svg => write_file(path, self.to_svg().as_bytes()),
            Format::Png => write_file(path, &self.to_png()?),
        }
    }

    /// What [`Picture::save`] would say of a name, before a density is evaluated for long.
    pub fn check_path(path: &Path) -> Result<()> {
        Format::of(path)?;
        check_writable(path)
    }
}

enum Format {
    Svg,
    Png,
}

impl Format {
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|e| e.to_str()).map(str::to_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => Err(PlotError::Format { path: path.to_path_buf(), allowed: "FILE.png, FILE.svg" }),
        }
    }
}
