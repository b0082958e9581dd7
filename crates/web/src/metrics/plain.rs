//! Conversion of OpenMetrics to the older text format of Prometheus.
//!
//! The differences: a counter's family is named like its samples, with `_total`; info is a gauge; there are
//! no units and no line at the end. The metrics and their values are the same. Source: Prometheus' exposition
//! formats, text format 0.0.4.

/// The media type of the text format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts our own OpenMetrics text, where HELP precedes TYPE.
pub(super) fn of_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        let comment = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match comment.map(|(word, rest)| (word, rest.split_once(' ').unwrap_or((rest, "")))) {
            Some(("HELP", (_, words))) => help = words,
            Some(("TYPE", (name, kind))) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                out.push_str(&format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n"));
                help = "";
            }
            // Units and the end marker.
            _ if line.starts_with('#') => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}
