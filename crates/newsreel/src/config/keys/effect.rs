//! When a changed key takes effect in a running server.
//!
//! Part of the one table in `keys`: a key that is not named here takes effect by a reload. Read by `reload`,
//! which goes by it, and by the manual, which says so.

use super::super::Config;

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// When the file is reloaded.
    Reload,
    /// When the server is next started; a reload takes all the rest and says so.
    Restart,
    /// Not in a running server: a reload that finds it changed is refused as a whole. What to do instead.
    Refused(&'static str),
}

/// The keys that a reload does not just take.
const EXCEPTIONS: &[(&str, &str, Effect)] = &[
    ("site", "data", Effect::Refused("stop the server, move the directory, and start it again")),
    ("buffer", "path", Effect::Refused("newsreel buffer move copies it while serving, and changes the file")),
    ("buffer", "block", Effect::Refused("it is fixed when the buffer is made; add another buffer")),
    ("class", "method", Effect::Refused("stop the server, or give a class of another name the new method")),
    ("class", "size", Effect::Restart),
    ("class", "path", Effect::Refused("stop the server, move the directory, and start it again")),
];

/// When a key takes effect.
pub fn effect(section: &str, name: &str) -> Effect {
    let row = EXCEPTIONS.iter().find(|row| row.0 == section && row.1 == name);
    row.map_or(Effect::Reload, |row| row.2)
}

/// A new configuration with the old values of what takes effect at a restart.
pub fn held_back(old: &Config, mut new: Config) -> Config {
    for class in &mut new.classes {
        if let Some(old) = old.classes.iter().find(|old| old.name == class.name && old.method == class.method)
        {
            class.size = old.size;
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    #[test]
    fn exceptions_name_keys_and_what_waits_for_a_restart_is_held_back() {
        for (section, name, _) in EXCEPTIONS {
            assert!(keys::key(section, name).is_some(), "{section}.{name}");
        }
        let config = |size: &str| {
            let class = format!("[[class]]\nname = \"m\"\nmethod = \"memory\"\nsize = \"{size}\"\n");
            crate::config::tests::with_trash(&class)
        };
        let (old, new) = (config("1 MiB"), config("2 MiB"));
        let held = held_back(&old, new.clone());
        let waiting: Vec<_> = super::super::super::diff::differences(&held, &new);
        assert_eq!(waiting.len(), 1);
        assert!(waiting.iter().all(|d| effect(d.place.section, d.place.key.unwrap()) == Effect::Restart));
    }
}
