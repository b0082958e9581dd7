//! The page `docs/figures.md`, made from the rows of a report.

use super::Report;
use site_base::figures::{Figure, FigureTable, FigureType};

const HEAD: &str = "\
# Figures

Written by `newsreel docs --figures` (`make docs`) from the rows of a report, in `operators::report`. A figure
has the same name everywhere. `newsreel status --json` prints all of them, and `/metrics` has those with a
type, as `newsreel_` and the name with `_` for each dot, `_total` after a counter, and a label for each list:
`server.peers[].offered` is `newsreel_server_peers_offered_total{peer=\"...\"}`. Counters begin at 0 when the
server starts. A text is a label of its object's information (`newsreel_server_peers_feed_info`), and a
trouble a gauge that is 1 while there is one. Units are in the names.

| figure | type | meaning |
|---|---|---|
";

/// Returns the page.
pub fn markdown() -> String {
    let mut text = HEAD.to_owned();
    append(Report::FIGURES, "", &mut text);
    text
}

fn append(figures: &[Figure], prefix: &str, text: &mut String) {
    for figure in figures {
        let path = format!("{prefix}{}", figure.name);
        let of = match figure.of {
            FigureType::Part(inner) => {
                append(inner, &format!("{path}."), text);
                continue;
            }
            FigureType::List(_, inner) => {
                append(inner, &format!("{path}[]."), text);
                continue;
            }
            FigureType::Counter => "counter",
            FigureType::Gauge => "gauge",
            FigureType::Text => "text",
            FigureType::Name => "label",
            FigureType::Trouble(_) => "trouble",
            FigureType::Hidden => "",
        };
        text.push_str(&format!("| `{path}` | {of} | {} |\n", figure.meaning()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_figures_is_that_of_the_rows() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures.md");
        let page = std::fs::read_to_string(file).unwrap();
        assert_eq!(page, markdown(), "run `make docs`");
    }
}
