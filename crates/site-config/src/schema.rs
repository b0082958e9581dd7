//! JSON Schema of the configuration, for editors: `newsreel docs --schema`.
//!
//! Made from the tables of keys, as the manual is. It describes the sections, their keys and the types of
//! values; what else a value must be, `newsreel check` knows. Source: JSON Schema draft 7, which taplo reads.

use serde_json::{Map, Value, json};

use super::read::is_shared;
use super::shape::ValueShape;
use super::table::{self, ConfigKey, ConfigSection, SECTIONS, SectionTable};
use super::{PeerSend, SendTemplate};

/// Returns the schema, as JSON.
pub fn schema() -> String {
    let sections = SECTIONS.iter().filter(|section| !section.name.contains('.'));
    let properties = sections.map(|section| (section.name.to_owned(), of_section(section))).collect();
    let mut schema = object(properties, &[]);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
        schema.insert("title".into(), "newsreel.toml".into());
    }
    format!("{schema:#}\n")
}

/// Returns the schema of a value.
fn of_shape(shape: &ValueShape) -> Value {
    match shape {
        ValueShape::Text => json!({ "type": "string" }),
        ValueShape::Word(words) => json!({ "enum": words }),
        ValueShape::Number(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueShape::Switch => json!({ "type": "boolean" }),
        ValueShape::List(element) => json!({ "type": "array", "items": of_shape(element) }),
        ValueShape::OneOf(shapes) => json!({ "anyOf": shapes.iter().map(of_shape).collect::<Vec<_>>() }),
        ValueShape::Table(names) => {
            let text = |name: &&str| ((*name).to_owned(), of_shape(&ValueShape::Text));
            object(names.iter().map(text).collect(), names)
        }
    }
}

/// Returns the schema of a table with these keys and no others.
fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

fn of_section(section: &ConfigSection) -> Value {
    let mut keys: Map<String, Value> = properties(&section.keys).collect();
    let mut required = required(&section.keys);
    for part in SECTIONS.iter() {
        if part.name.strip_prefix(section.name).is_some_and(|rest| rest.starts_with('.')) {
            let word = part.name.rsplit('.').next().unwrap_or_default();
            // What a part lacks may come from its template.
            keys.insert(word.to_owned(), object(properties(&part.keys).collect(), &[]));
        }
    }
    if section.name == SendTemplate::NAME {
        let of_send = table::section(PeerSend::NAME).map(|send| send.keys.as_slice()).unwrap_or_default();
        keys.extend(properties(of_send).filter(|(word, _)| is_shared(word)));
    }
    required.sort_unstable();
    let mut table = object(keys, &required);
    if let Some(table) = table.as_object_mut() {
        table.insert("description".into(), section.doc.as_str().into());
    }
    if section.repeated { json!({ "type": "array", "items": table }) } else { table }
}

fn properties(keys: &[ConfigKey]) -> impl Iterator<Item = (String, Value)> {
    keys.iter().map(|key| (key.word().to_owned(), of_key(key)))
}

fn required(keys: &[ConfigKey]) -> Vec<&'static str> {
    keys.iter().filter(|key| key.is_required).map(ConfigKey::word).collect()
}

fn of_key(key: &ConfigKey) -> Value {
    let mut schema = of_shape(&key.shape);
    if let Some(schema) = schema.as_object_mut() {
        let text = format!("{} Type: {}. Example: {}", key.doc, key.takes, key.example);
        schema.insert("description".into(), text.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::keys;

    /// Returns why a value does not conform to a schema, of which it knows the words used here.
    fn objection(value: &toml_edit::Item, schema: &Value, at: &str) -> Option<String> {
        let no = |why: &str| Some(format!("{at}: {why}"));
        if let Some(shapes) = schema["anyOf"].as_array() {
            let fits = shapes.iter().any(|shape| objection(value, shape, at).is_none());
            return if fits { None } else { no("fits no form") };
        }
        if let Some(words) = schema["enum"].as_array() {
            let fits = words.iter().any(|word| word.as_str() == value.as_str());
            return if fits { None } else { no("not one of the words") };
        }
        match schema["type"].as_str().unwrap() {
            "string" => {
                if value.is_str() {
                    None
                } else {
                    no("not a text")
                }
            }
            "boolean" => {
                if value.is_bool() {
                    None
                } else {
                    no("not true or false")
                }
            }
            "integer" => {
                let (min, max) = (schema["minimum"].as_i64().unwrap(), schema["maximum"].as_i64().unwrap());
                let fits = value.as_integer().is_some_and(|number| (min..=max).contains(&number));
                if fits { None } else { no("not such a number") }
            }
            "array" => {
                let elements: Vec<toml_edit::Item> = match value {
                    toml_edit::Item::ArrayOfTables(tables) => {
                        tables.iter().cloned().map(toml_edit::Item::Table).collect()
                    }
                    value => match value.as_array() {
                        Some(list) => list.iter().cloned().map(toml_edit::Item::Value).collect(),
                        None => return no("not a list"),
                    },
                };
                elements.iter().find_map(|element| objection(element, &schema["items"], at))
            }
            "object" => {
                let Some(table) = value.as_table_like() else { return no("not a table") };
                let lacks = |key: &&Value| !table.contains_key(key.as_str().unwrap());
                if let Some(key) = schema["required"].as_array().unwrap().iter().find(lacks) {
                    return no(&format!("lacks {key}"));
                }
                table.iter().find_map(|(key, value)| match schema["properties"].get(key) {
                    Some(schema) => objection(value, schema, &format!("{at}.{key}")),
                    None => no(&format!("has no {key}")),
                })
            }
            other => panic!("{at}: {other}"),
        }
    }

    fn of_text(text: &str) -> Option<String> {
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        objection(document.as_item(), &serde_json::from_str(&schema()).unwrap(), "")
    }

    #[test]
    fn every_example_conforms_to_the_schema() {
        for key in keys() {
            let document: toml_edit::DocumentMut = key.example.parse().unwrap();
            assert_eq!(objection(&document[key.word()], &of_key(key), &key.path()), None);
        }
        for example in ["private.toml", "relay.toml"] {
            let file =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples").join(example);
            assert_eq!(of_text(&std::fs::read_to_string(file).unwrap()), None, "{example}");
        }
    }

    #[test]
    fn the_configuration_with_all_defaults_conforms_to_the_schema() {
        assert_eq!(of_text(&crate::testing::with_trash("").to_toml()), None);
    }

    #[test]
    fn the_schema_refuses_unknown_keys_and_wrong_types() {
        let objection = |text: &str| of_text(text).unwrap();
        assert_eq!(objection("[site]\nlisten = \"127.0.0.1:119\"\n"), ".site.listen: not a list");
        assert_eq!(objection("[site]\nlisten_to = []\n"), ".site: has no listen_to");
        assert_eq!(objection("[[rule]]\n"), ".rule: lacks \"class\"");
        assert_eq!(objection("[spam]\nduplicates = \"perhaps\"\n"), ".spam.duplicates: not one of the words");
    }
}
