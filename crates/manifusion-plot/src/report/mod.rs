//! One HTML file that shows a model: a view to turn, the pictures, the numbers and what they mean,
//! and how to make it again.
//!
//! The file needs no network and no other file. Scripts and styles are in `report.js` and
//! `report.css`.

pub(crate) mod metrics;
mod view;

use std::fmt::Write as _;
use std::path::Path;

use manifusion::evaluation::Evaluation;

use crate::error::{PlotError, Result, check_writable, write_file};
use crate::grid::Grid;
use crate::source::{Options, PictureKind, PlotSource};
use crate::svg::escape;
use crate::text;

const SCRIPT: &str = include_str!("report.js");
const STYLE: &str = include_str!("report.css");

/// What a report is made from.
#[derive(Clone, Debug)]
pub struct ReportInput<'a> {
    /// The density with its data, samples and curves; its title is the report's.
    pub source: PlotSource<'a>,
    /// Settings of the pictures.
    pub options: &'a Options,
    /// The numbers of the model; none before it is evaluated.
    pub evaluation: Option<&'a Evaluation>,
    /// What was found about the data: duplicates, overlap of the splits and the like, a sentence
    /// each.
    pub findings: &'a [String],
    /// The resolved configuration, as TOML.
    pub config: &'a str,
    /// Commands that make this report again, in order.
    pub commands: &'a [String],
    /// Name and version of the program.
    pub generator: &'a str,
}

/// Writes the report into a file.
pub fn write_report(path: &Path, input: &ReportInput<'_>) -> Result<()> {
    // Found out before the density is evaluated, which can take long.
    check_writable(path)?;
    write_file(path, report_html(input)?.as_bytes())
}

/// The report as a string.
pub fn report_html(input: &ReportInput<'_>) -> Result<String> {
    let samples = input.source.samples_or_draw(input.options)?;
    let width = input.source.manifold.ambient_dim();
    let mut source = input.source;
    source.samples = Some(manifusion::rows::Rows::new(&samples, width)?);
    source.check()?;
    let grid = match Grid::new(&source, input.options) {
        Ok(grid) => Some(grid),
        // Such manifolds have other pictures.
        Err(PlotError::WrongManifold { .. }) => None,
        Err(error) => return Err(error),
    };
    source.grid = grid.as_ref();

    let pictures = pictures(&source, input.options)?;
    let view = view::View::new(&source)?;
    let title = escape(source.title);
    let mut body = String::new();
    let subtitle = subtitle(&source, input.evaluation);
    let _ = write!(
        body,
        "<header><h1>{title}</h1>\n<p class=\"soft\">{subtitle}</p>\n\
         <nav aria-label=\"Sections\"><ul><li><a href=\"#look\">Look</a></li>\
         <li><a href=\"#pictures\">Pictures</a></li><li><a href=\"#numbers\">Numbers</a></li>\
         <li><a href=\"#data\">Data</a></li><li><a href=\"#config\">Configuration</a></li>\
         <li><a href=\"#again\">Make it again</a></li></ul></nav></header>\n<main>\n"
    );
    section(&mut body, "look", "Look", &view.html());
    section(&mut body, "pictures", "Pictures", &pictures);
    section(&mut body, "numbers", "Numbers", &metrics::table(input.evaluation)?);
    section(&mut body, "data", "What was found about the data", &findings(input.findings));
    let config =
        format!("<pre tabindex=\"0\" aria-label=\"Configuration\">{}</pre>", escape(input.config));
    section(&mut body, "config", "Configuration", &config);
    let commands = format!(
        "<pre tabindex=\"0\" aria-label=\"Commands\">{}</pre>",
        escape(&input.commands.join("\n"))
    );
    section(&mut body, "again", "Make it again", &commands);
    let generator = escape(input.generator);
    let (font, data) = (text::font_face(), view.json()?);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"{generator}\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{font}\n{STYLE}</style>\n</head>\n<body>\n{body}</main>\n\
         <footer class=\"soft\"><p>Made by {generator}. Coastlines: Natural Earth, public domain. This file needs no \
         network.</p></footer>\n<script type=\"application/json\" id=\"view-data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    ))
}

fn section(body: &mut String, id: &str, title: &str, content: &str) {
    let _ = writeln!(
        body,
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n{content}\n</section>"
    );
}

/// Manifold, and what the evaluation says of method and data.
fn subtitle(source: &PlotSource<'_>, evaluation: Option<&Evaluation>) -> String {
    let mut parts = vec![format!("A density on {}", escape(&source.manifold.name()))];
    if let Some(found) = evaluation {
        parts.push(format!("method {}", escape(&found.method)));
        parts.extend(found.dataset.as_ref().map(|data| format!("data {}", escape(data))));
        parts.extend(found.seed.map(|seed| format!("seed {seed}")));
    }
    parts.join(" · ")
}

fn findings(findings: &[String]) -> String {
    if findings.is_empty() {
        return "<p>No findings were recorded for these data.</p>".to_string();
    }
    let items: Vec<String> = findings.iter().map(|f| format!("<li>{}</li>\n", escape(f))).collect();
    format!("<ul>\n{}</ul>", items.concat())
}

fn pictures(source: &PlotSource<'_>, options: &Options) -> Result<String> {
    let mut html = String::new();
    if let Some(sentence) = PictureKind::without_own_picture(source.manifold) {
        let _ = writeln!(html, "<p>{}.</p>", escape(&sentence));
    }
    let kinds = PictureKind::all_for(source);
    for kind in &kinds {
        let picture = crate::draw(*kind, source, options)?;
        let _ = writeln!(
            html,
            "<figure><div class=\"paper\" tabindex=\"0\" role=\"group\" aria-label=\"{kind} picture\">{}</div>\
             <figcaption>{}</figcaption></figure>",
            picture.to_inline_svg(&kind.to_string()),
            caption(*kind)
        );
    }
    if kinds.is_empty() {
        html.push_str("<p>There are no data and no training curves to draw.</p>");
    }
    Ok(html)
}

fn caption(kind: PictureKind) -> &'static str {
    match kind {
        PictureKind::Map(_) => {
            "The density on a map. Colours end where all but 0.1 % of the mass lies above; the arrow says that lower values occur."
        }
        PictureKind::Ramachandran | PictureKind::Plane => {
            "The density with the smallest regions that hold 50, 90 and 95 % of its mass. Colours end where all but 0.1 % of the mass lies above."
        }
        PictureKind::Corner => {
            "Every pair of angles. A good model makes the picture symmetric about its diagonal."
        }
        PictureKind::Disk => {
            "The Poincaré disk: data above, the learned density below, with the smallest regions that hold 50, 90 and 95 % of its mass."
        }
        PictureKind::Euler | PictureKind::Axes | PictureKind::Rotations => {
            "Rotations by axis and angle, and by Euler angles. A good model makes data and samples look alike."
        }
        PictureKind::Distances => {
            "How far pairs of points are apart, in the data and among samples of the model. The two lines agree for a good model."
        }
        PictureKind::Curves => {
            "How the training went. A proposal q(s) that fits keeps the variance of the loss's estimator below that of uniform times."
        }
    }
}
