//! A report as OpenMetrics text.
//!
//! Walks the report as JSON, so that names match the JSON by construction. `figures` describes each value.

use super::figures::{FIGURES, FigureType, LABELS, MetricRow};
use super::latencies::TimedOperation;
use operators::report::Report;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// Labels of a sample: the peer, buffer or class.
type Labels = Vec<(String, String)>;
/// No exemplars are kept.
const NO_EXEMPLAR: Option<&Exemplar<Labels, f64>> = None;

/// Returns the text of a scrape.
pub(super) fn text(report: &Report, timed: Vec<TimedOperation>) -> Result<String, fmt::Error> {
    let report = serde_json::to_value(report).map_err(|_| fmt::Error)?;
    let mut registry = Registry::with_prefix("newsreel");
    registry.register_collector(Box::new(Scrape { report, timed }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    report: Value,
    timed: Vec<TimedOperation>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for figure in FIGURES {
            match figure.of {
                FigureType::Counter | FigureType::Gauge | FigureType::Trouble => {
                    figure_of(figure, &self.report, &mut encoder)?;
                }
                FigureType::Text | FigureType::Left => {}
            }
        }
        for parent in texts().map(|(parent, _)| parent).collect::<BTreeSet<_>>() {
            info_of(parent, &self.report, &mut encoder)?;
        }
        for TimedOperation { name, help, counts } in &self.timed {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            metric.encode_histogram::<Labels>(counts.sum_secs, counts.count, &counts.buckets, None)?;
        }
        Ok(())
    }
}

/// Encodes all samples of a figure.
fn figure_of(figure: &MetricRow, report: &Value, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (parent, key) = figure.path.rsplit_once('.').unwrap_or(("", figure.path));
    let kind = if figure.of == FigureType::Counter { MetricType::Counter } else { MetricType::Gauge };
    let name = figure.path.replace('.', "_");
    let mut metric = encoder.encode_descriptor(&name, figure.help, None, kind)?;
    for (labels, object) in objects(report, parent) {
        let value = object.get(key).unwrap_or(&Value::Null);
        let value = match (figure.of, value) {
            (FigureType::Trouble, Value::Null) => 0.0,
            (FigureType::Trouble, Value::String(text)) => f64::from(u8::from(!text.is_empty())),
            (_, Value::Bool(is)) => f64::from(u8::from(*is)),
            (_, value) => match value.as_f64() {
                Some(value) => value,
                None => continue,
            },
        };
        match labels.as_slice() {
            [] => sample(&mut metric, figure.of, value)?,
            _ => sample(&mut metric.encode_family(&labels)?, figure.of, value)?,
        }
    }
    Ok(())
}

fn sample(metric: &mut MetricEncoder<'_>, of: FigureType, value: f64) -> fmt::Result {
    match of {
        FigureType::Counter => metric.encode_counter(&value, NO_EXEMPLAR),
        _ => metric.encode_gauge(&value),
    }
}

/// Encodes the texts of an object, as labels of one sample that is always 1.
fn info_of(parent: &str, report: &Value, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let keys: Vec<&str> = texts().filter(|(own, _)| *own == parent).map(|(_, key)| key).collect();
    let name = if parent.is_empty() { "site".to_owned() } else { parent.replace('.', "_") };
    let help = "What is known in words";
    let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Info)?;
    for (mut labels, object) in objects(report, parent) {
        for key in &keys {
            if let Some(text) = object.get(*key).and_then(Value::as_str) {
                labels.push(((*key).to_owned(), text.to_owned()));
            }
        }
        metric.encode_info(&labels)?;
    }
    Ok(())
}

/// Returns the paths of texts, each split into that of the object and the key in it.
fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    let texts = FIGURES.iter().filter(|figure| figure.of == FigureType::Text);
    texts.map(|figure| figure.path.rsplit_once('.').unwrap_or(("", figure.path)))
}

/// Returns the objects at a path, over all elements of lists, with the labels that identify each.
fn objects<'v>(report: &'v Value, path: &str) -> Vec<(Labels, &'v Map<String, Value>)> {
    let mut found = vec![(Labels::new(), report)];
    let mut begun = String::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !begun.is_empty() {
            begun.push('.');
        }
        begun.push_str(part);
        let label = LABELS.iter().find(|(list, ..)| *list == begun);
        found = found
            .into_iter()
            .filter_map(|(labels, value)| Some((labels, value.get(part)?)))
            .flat_map(|(labels, value)| match (value, label) {
                (Value::Array(elements), Some((_, label, key))) => {
                    let named = |element: &'v Value| {
                        let name = element.get(*key).and_then(Value::as_str).unwrap_or_default();
                        let own = ((*label).to_owned(), name.to_owned());
                        (labels.iter().cloned().chain([own]).collect(), element)
                    };
                    elements.iter().map(named).collect()
                }
                (value, _) => vec![(labels, value)],
            })
            .collect();
    }
    found.into_iter().filter_map(|(labels, value)| Some((labels, value.as_object()?))).collect()
}
