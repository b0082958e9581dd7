//! A report as OpenMetrics text.
//!
//! Walks the figures of a report ([`FigureTable`]) and its JSON together. Names are those of the JSON, joined
//! with `_`.

use super::latencies::TimedOperation;
use operators::report::Report;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use site_base::figures::{Figure, FigureTable, FigureType};
use std::fmt;

/// Labels of a sample: the peer, buffer or class.
type Labels = Vec<(String, String)>;
/// Objects of the same figures, with the labels that distinguish them.
type LabelledObjects<'v> = Vec<(Labels, &'v Map<String, Value>)>;
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
        let root = self.report.as_object().map(|object| (Labels::new(), object));
        encode_part("", Report::FIGURES, &root.into_iter().collect(), &mut encoder)?;
        for TimedOperation { name, help, counts } in &self.timed {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            metric.encode_histogram::<Labels>(counts.sum_secs, counts.count, &counts.buckets, None)?;
        }
        Ok(())
    }
}

/// Encodes the figures of some objects, whose names begin with `prefix`.
fn encode_part(
    prefix: &str,
    figures: &[Figure],
    objects: &LabelledObjects<'_>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    for figure in figures {
        let name =
            if prefix.is_empty() { figure.name.to_owned() } else { format!("{prefix}_{}", figure.name) };
        match figure.of {
            FigureType::Counter | FigureType::Gauge | FigureType::Trouble(_) => {
                encode_figure(&name, figure, objects, encoder)?;
            }
            FigureType::Part(figures) => encode_part(&name, figures, &parts(objects, figure.name), encoder)?,
            FigureType::List(label, figures) => {
                encode_part(&name, figures, &elements(objects, figure.name, label, figures), encoder)?;
            }
            FigureType::Text | FigureType::Name | FigureType::Hidden => {}
        }
    }
    encode_texts(if prefix.is_empty() { "site" } else { prefix }, figures, objects, encoder)
}

/// Encodes a figure, with a sample for each object that has a value.
fn encode_figure(
    name: &str,
    figure: &Figure,
    objects: &LabelledObjects<'_>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let is_counter = matches!(figure.of, FigureType::Counter);
    let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
    let mut metric = encoder.encode_descriptor(name, &figure.help(), None, kind)?;
    for (labels, object) in objects {
        let value = match (figure.of, object.get(figure.name).unwrap_or(&Value::Null)) {
            (FigureType::Trouble(_), Value::Null) => 0.0,
            (FigureType::Trouble(_), Value::String(text)) => f64::from(u8::from(!text.is_empty())),
            (_, Value::Bool(is)) => f64::from(u8::from(*is)),
            (_, value) => match value.as_f64() {
                Some(value) => value,
                None => continue,
            },
        };
        match labels.as_slice() {
            [] => encode_sample(&mut metric, is_counter, value)?,
            _ => encode_sample(&mut metric.encode_family(labels)?, is_counter, value)?,
        }
    }
    Ok(())
}

fn encode_sample(metric: &mut MetricEncoder<'_>, is_counter: bool, value: f64) -> fmt::Result {
    if is_counter { metric.encode_counter(&value, NO_EXEMPLAR) } else { metric.encode_gauge(&value) }
}

/// Encodes the texts of each object, if they have any, as labels of one sample that is always 1.
fn encode_texts(
    name: &str,
    figures: &[Figure],
    objects: &LabelledObjects<'_>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let texts = || figures.iter().filter(|figure| matches!(figure.of, FigureType::Text));
    if texts().next().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, "What is known in words", None, MetricType::Info)?;
    for (labels, object) in objects {
        let text = |figure: &Figure| {
            let text = object.get(figure.name)?.as_str()?;
            Some((figure.name.to_owned(), text.to_owned()))
        };
        metric.encode_info(&labels.iter().cloned().chain(texts().filter_map(text)).collect::<Labels>())?;
    }
    Ok(())
}

/// Returns the parts of objects, where there are any.
fn parts<'v>(objects: &LabelledObjects<'v>, name: &str) -> LabelledObjects<'v> {
    objects
        .iter()
        .filter_map(|(labels, object)| Some((labels.clone(), object.get(name)?.as_object()?)))
        .collect()
}

/// Returns the elements of lists in objects, each with a label of its own.
fn elements<'v>(
    objects: &LabelledObjects<'v>,
    list: &str,
    label: &str,
    figures: &[Figure],
) -> LabelledObjects<'v> {
    let key =
        figures.iter().find(|figure| matches!(figure.of, FigureType::Name)).map_or("", |name| name.name);
    let mut found = Vec::new();
    for (labels, object) in objects {
        for element in object.get(list).and_then(Value::as_array).into_iter().flatten() {
            let name = element.get(key).and_then(Value::as_str).unwrap_or_default();
            let own = (label.to_owned(), name.to_owned());
            let labels = labels.iter().cloned().chain([own]).collect();
            found.extend(element.as_object().map(|element| (labels, element)));
        }
    }
    found
}
