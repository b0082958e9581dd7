//! OpenMetrics as the older text format of Prometheus.
//!
//! What differs: a counter's family is called like its samples, with `_total`; info is a gauge; there are no
//! units and no line at the end. The metrics and their values are the same. Source: Prometheus' exposition
//! formats, text format 0.0.4.

/// The media type of the text format.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text format of OpenMetrics that we have written.
pub(super) fn of_open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut suffix = "";
    // HELP stands before or after TYPE, which says what the family is called.
    let mut help: Option<(&str, &str)> = None;
    let mut of_type = "";
    for line in text.lines() {
        let comment = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        match comment.map(|(word, rest)| (word, rest.split_once(' ').unwrap_or((rest, "")))) {
            Some(("HELP", (name, words))) => {
                if of_type == name {
                    out.push_str(&format!("# HELP {name}{suffix} {words}\n"));
                } else {
                    help = Some((name, words));
                }
            }
            Some(("TYPE", (name, kind))) => {
                of_type = name;
                let kind = match kind {
                    "counter" => {
                        suffix = "_total";
                        kind
                    }
                    "info" => {
                        suffix = "_info";
                        "gauge"
                    }
                    "unknown" => {
                        suffix = "";
                        "untyped"
                    }
                    _ => {
                        suffix = "";
                        kind
                    }
                };
                if let Some((_, words)) = help.take().filter(|(own, _)| *own == name) {
                    out.push_str(&format!("# HELP {name}{suffix} {words}\n"));
                }
                out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            }
            // Units, and the end.
            Some(_) => {}
            None if line.starts_with('#') => {}
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}
