//! Charts as SVG files of their own: bars of things that were compared, and lines over the size of a cache.

mod bars;
mod lines;

pub use bars::{Label, Panel, bars};
pub use lines::{Figure, figure};

/// How each of them begins.
fn begin(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    )
}
