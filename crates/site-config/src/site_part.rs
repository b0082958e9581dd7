//! The part of a configuration that is the site's, and that all members of a cluster have alike.
//!
//! Which keys are the site's and which the machine's is in the table of keys. Called by
//! `operators::shared_config`.

use super::diff::{ConfigChange, Difference};
use super::edit::EditFault;
use super::table::{self, ConfigKey, KeyOwner};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// Returns the text of a configuration that has the site's keys of one and the machine's of another. A
/// section that only the first one has, such as a class, keeps the machine's keys that it has there.
pub fn with_own_keys(shared: &str, own: &str) -> Result<String, EditFault> {
    let mut document: DocumentMut = shared.parse().map_err(EditFault::Toml)?;
    let own: DocumentMut = own.parse().map_err(EditFault::Toml)?;
    for section in table::SECTIONS.iter() {
        let keys: Vec<&ConfigKey> = table::keys().filter(|key| key.section == section.name).collect();
        let of_machine: Vec<&ConfigKey> =
            keys.iter().filter(|key| key.owner == KeyOwner::Machine).copied().collect();
        let (name, own) = (section.name, own.get(section.name));
        if of_machine.is_empty() {
            continue;
        }
        if of_machine.len() == keys.len() {
            document.remove(name);
            own.into_iter().for_each(|own| drop(document.insert(name, own.clone())));
        } else if section.repeated {
            let Some(all) = document.get_mut(name).and_then(Item::as_array_of_tables_mut) else { continue };
            let own = own.and_then(Item::as_array_of_tables);
            for (at, table) in all.iter_mut().enumerate() {
                let named = table.get("name").and_then(Item::as_str).map(str::to_owned);
                let is_it = |other: &&Table| other.get("name").and_then(Item::as_str) == named.as_deref();
                let found = match named {
                    Some(_) => own.and_then(|own| own.iter().find(is_it)),
                    None => own.and_then(|own| own.get(at)),
                };
                if let Some(found) = found {
                    take_keys(table, found, &of_machine);
                }
            }
        } else {
            let empty = Table::new();
            let own = own.and_then(Item::as_table_like).unwrap_or(&empty);
            let table = document.entry(name).or_insert(Item::Table(Table::new()));
            if let Some(table) = table.as_table_like_mut() {
                take_keys(table, own, &of_machine);
            }
        }
    }
    Ok(document.to_string())
}

/// Gives a section these keys of another, and none where the other has none.
fn take_keys(table: &mut dyn TableLike, own: &dyn TableLike, keys: &[&ConfigKey]) {
    for key in keys {
        match key.name.split_once('.') {
            None => take_key(table, own, key.name),
            Some((part, word)) => {
                let Some(table) = table.get_mut(part).and_then(Item::as_table_like_mut) else { continue };
                let empty = Table::new();
                let own = own.get(part).and_then(Item::as_table_like).unwrap_or(&empty);
                take_key(table, own, word);
            }
        }
    }
}

fn take_key(table: &mut dyn TableLike, own: &dyn TableLike, word: &str) {
    table.remove(word);
    own.get(word).into_iter().for_each(|value| drop(table.insert(word, value.clone())));
}

/// Reports whether a difference is one of the site, which members of a cluster must not have.
pub fn is_of_site(difference: &Difference) -> bool {
    let place = &difference.place;
    match (place.key, &difference.change) {
        (Some(key), ConfigChange::Value(..)) => {
            table::key(place.section, key).is_none_or(|key| key.owner == KeyOwner::Site)
        }
        _ => table::keys().any(|key| key.section == place.section && key.owner == KeyOwner::Site),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differences;
    use std::path::Path;

    const OWN: &str = "[site]\npath_identity = \"a.example\"\nlisten = [\"127.0.0.1:1119\"]\n\
        [[buffer]]\nname = \"a\"\npath = \"a.cyc\"\nsize = \"1 MiB\"\n\
        [[class]]\nname = \"text\"\nbuffers = [\"a\"]\ncompress = \"zstd\"\n[[rule]]\nclass = \"text\"\n\
        [[peer]]\nname = \"x\"\naddresses = [\"192.0.2.1\"]\n[peer.send]\nto = \"x:119\"\nbind = \"192.0.2.9\"\n";
    const SHARED: &str = "# Of the site.\n[site]\npath_identity = \"a.example\"\nlisten = [\"127.0.0.1:9\"]\n\
        remember_days = 20\n[limits]\nconnections_max = 77\n\
        [[buffer]]\nname = \"b\"\npath = \"b.cyc\"\nsize = \"9 MiB\"\n\
        [[class]]\nname = \"text\"\nring = \"100 KiB\"\nbuffers = [\"b\"]\n[[rule]]\nclass = \"text\"\n\
        [[peer]]\nname = \"y\"\naddresses = [\"192.0.2.2\"]\n\
        [[peer]]\nname = \"x\"\naddresses = [\"192.0.2.7\"]\n[peer.send]\nto = \"x:119\"\n";

    fn parsed(text: &str) -> crate::Config {
        crate::parse(text, Path::new("x/newsreel.toml")).map_err(|e| e.report(false)).unwrap()
    }

    #[test]
    fn the_keys_of_the_site_are_those_of_one_file_and_the_machines_those_of_the_other() {
        let text = with_own_keys(SHARED, OWN).unwrap();
        let config = parsed(&text);
        assert!(text.starts_with("# Of the site.\n"), "{text}");
        assert_eq!(config.site.remember_days, 20);
        assert_eq!(config.site.listen, parsed(OWN).site.listen);
        assert_eq!(config.buffers, parsed(OWN).buffers);
        assert_eq!(config.classes[0].buffers, ["a"]);
        assert_eq!(config.classes[0].ring, Some(100 << 10));
        assert_eq!(config.classes[0].compress, parsed(OWN).classes[0].compress);
        let names: Vec<&str> = config.peers.iter().map(|peer| &*peer.name).collect();
        assert_eq!(names, ["y", "x"]);
        assert!(config.peers[1].send.as_ref().unwrap().link().bind.is_some());
        // Once more it changes nothing, and what is left differs in the machine's keys alone.
        assert_eq!(differences(&config, &parsed(&with_own_keys(SHARED, &text).unwrap())), []);
        let left = differences(&config, &parsed(SHARED));
        assert!(!left.is_empty() && !left.iter().any(is_of_site), "{left:?}");
        let of_site = differences(&config, &parsed(OWN));
        assert!(of_site.iter().filter(|d| is_of_site(d)).count() >= 4, "{of_site:?}");
    }
}
