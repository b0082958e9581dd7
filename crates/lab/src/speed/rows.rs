//! The rows of the speed table.

/// Beside an older binary no row may be slower than by so much.
pub const BASE_RATIO_MIN: f64 = 0.95;
/// CHECK must not stall where the client sends again only when a quarter of its window is free.
pub const NOT_STALLED_MIN: f64 = 0.5;

/// Which value is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

/// A row.
#[derive(Debug)]
pub struct Row {
    /// As the script calls it.
    pub name: &'static str,
    /// As the table shows it.
    pub text: &'static str,
    /// How many times INN's value it must be, at least.
    pub ratio_min: Option<f64>,
    pub better: Better,
    /// With which others it is drawn.
    pub group: &'static str,
}

impl Row {
    /// The title of its panel: processor time has no name of its own in the table.
    pub fn title(&self) -> String {
        match self.text.strip_prefix("  ") {
            None => self.text.to_owned(),
            Some(text) => {
                let above = ROWS.iter().take_while(|row| row.name != self.name).last();
                let what =
                    above.map_or("", |row| row.text.rsplit_once(", ").map_or(row.text, |(what, _)| what));
                format!("{what}: {text}")
            }
        }
    }
}

/// Groups of rows: name, file and title of their plot.
pub const GROUPS: [(&str, &str, &str); 4] = [
    ("feeding", "speed-feeding", "Articles and Message-IDs from peers, over releases"),
    ("reading", "speed-reading", "Readers, over releases"),
    ("layers", "speed-layers", "Readers over TLS and COMPRESS, over releases"),
    ("cost", "speed-cost", "Processor time of the server, over releases"),
];

const fn more(name: &'static str, text: &'static str, ratio_min: f64, group: &'static str) -> Row {
    Row { name, text, ratio_min: Some(ratio_min), better: Better::More, group }
}

const fn cost(name: &'static str, ratio_min: Option<f64>) -> Row {
    Row { name, text: "  server CPU, us/article", ratio_min, better: Better::Less, group: "cost" }
}

/// A row without a limit beside INN.
const fn shown(name: &'static str, text: &'static str, group: &'static str) -> Row {
    Row { name, text, ratio_min: None, better: Better::More, group }
}

/// All of them, in the order of the table.
pub const ROWS: [Row; 24] = [
    more("takethis-1", "TAKETHIS, 1 connection, articles/s", 8.0, "feeding"),
    cost("takethis-1-cpu", Some(8.0)),
    shown("spam", "TAKETHIS, 1 connection, [spam] in shadow mode, articles/s", "feeding"),
    cost("spam-cpu", None),
    more("takethis-4", "TAKETHIS, 4 connections, articles/s", 8.0, "feeding"),
    cost("takethis-4-cpu", Some(8.0)),
    more("check", "CHECK, known ids, window 100, refill 1, /s", 4.0, "feeding"),
    more("check-refill-25", "CHECK, known ids, window 100, refill 25, /s", 4.0, "feeding"),
    more("ihave", "IHAVE, lock-step, articles/s", 2.0, "feeding"),
    more("big", "TAKETHIS, 750 KB, window 8, MB/s", 3.0, "feeding"),
    more("article-64x16", "ARTICLE by number, 64 x 16, /s", 3.0, "reading"),
    more("article-1x1", "ARTICLE by number, 1 x 1, ordinary client, /s", 500.0, "reading"),
    more("over", "OVER, whole biggest group, rows/s", 3.0, "reading"),
    more("group", "GROUP, 1 x 1, /s", 2.0, "reading"),
    more("list-active", "LIST ACTIVE, 3,000 groups, /s", 10.0, "reading"),
    more("connect", "connect, MODE READER, QUIT, /s", 5.0, "reading"),
    shown("layers-plain", "ARTICLE, 64 x 16, plain, /s", "layers"),
    cost("layers-plain-cpu", None),
    shown("layers-tls", "ARTICLE, 64 x 16, TLS, /s", "layers"),
    cost("layers-tls-cpu", None),
    shown("layers-compress", "ARTICLE, 64 x 16, COMPRESS, /s", "layers"),
    cost("layers-compress-cpu", None),
    shown("layers-tls-compress", "ARTICLE, 64 x 16, TLS and COMPRESS, /s", "layers"),
    cost("layers-tls-compress-cpu", None),
];
