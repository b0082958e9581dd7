//! Objections to a new configuration in a running server, collected so that all of them are reported at once.

use super::{NextConfig, ReloadCause};
use crate::running::Server;
use access::tls::TlsOffer;
use site::listening::ListenError;
use site_config::table;
use site_config::table::ReloadEffect;
use site_config::{Config, ConfigChange, ConfigError, ConfigFault, ConfigLocation, Difference, is_of_site};
use spool::{ConfigObjection, ObjectionSubject};
use std::path::Path;

/// Checks a configuration for everything that can be seen before anything is done.
pub(super) fn all(
    server: &Server,
    old: &Config,
    next: &NextConfig,
    text: &str,
    file: &Path,
    cause: ReloadCause,
) -> Result<(), ConfigError> {
    let mut faults = FaultList::new(text, file, &next.config);
    if cause == ReloadCause::Operator && server.shared_config.is_shared(&server.site.spool) {
        faults.shared_keys(next.differences.iter().chain(&next.waiting));
    }
    if faults.refused_keys(&next.differences) {
        // The paths of everything else depend on it.
        return faults.none();
    }
    if let Err(reason) = TlsOffer::read(&next.config) {
        faults.tls(&reason.to_string());
    }
    faults.objections(server.site.spool.reconfiguration().judge(&next.config.spool_config()));
    if let Err(cannot) = server.listening.plan(old, &next.config) {
        cannot.iter().for_each(|cannot| faults.listen(cannot));
    }
    faults.none()
}

/// The faults of a file, as they are found.
pub(super) struct FaultList<'t> {
    text: &'t str,
    file: &'t Path,
    config: &'t Config,
    found: Vec<ConfigFault>,
    /// Places that have a fault already.
    known: Vec<ConfigLocation>,
}

impl<'t> FaultList<'t> {
    pub fn new(text: &'t str, file: &'t Path, config: &'t Config) -> Self {
        Self { text, file, config, found: Vec::new(), known: Vec::new() }
    }

    fn add(&mut self, place: &ConfigLocation, message: String, label: &str, advice: Option<String>) {
        self.found.push(place.fault(self.text, message, label, advice));
        self.known.push(ConfigLocation { key: None, ..place.clone() });
    }

    /// Adds faults for keys that cannot change in a running server; returns true if the data directory is one
    /// of them.
    fn refused_keys(&mut self, differences: &[Difference]) -> bool {
        let is_data = |d: &&Difference| (d.place.section, d.place.key) == ("site", Some("data"));
        if let Some(data) = differences.iter().find(is_data) {
            self.refused_key(data);
            return true;
        }
        differences.iter().for_each(|difference| self.refused_key(difference));
        false
    }

    fn refused_key(&mut self, difference: &Difference) {
        let (Some(key), ConfigChange::Value(old, _)) = (difference.place.key, &difference.change) else {
            return;
        };
        let effect = table::key(difference.place.section, key).map(|key| key.effect);
        if let Some(ReloadEffect::Refused(advice)) = effect {
            let old = old.as_deref().unwrap_or("none");
            let message = format!("{} {key} is {old} while the server runs", difference.section);
            self.add(&difference.place, message, "cannot change by a reload", Some(advice.into()));
        }
    }

    /// Adds faults for what members of a cluster have alike.
    fn shared_keys<'d>(&mut self, differences: impl Iterator<Item = &'d Difference>) {
        for difference in differences.filter(|difference| is_of_site(difference)) {
            let message = format!("all members of the cluster share this: {difference}");
            let advice = "put it back, and change it at all of them: newsreel cluster config apply FILE";
            self.add(&difference.place, message, "is the site's", Some(advice.into()));
        }
    }

    /// Adds a fault for certificates that cannot be used.
    fn tls(&mut self, reason: &str) {
        let place = ConfigLocation { section: "tls", index: 0, key: Some("certificate") };
        self.add(&place, reason.to_owned(), "these files", None);
    }

    /// Adds a fault for an address on which listening failed.
    pub fn listen(&mut self, cannot: &ListenError) {
        let place = ConfigLocation { section: cannot.section, index: 0, key: Some(cannot.key) };
        self.add(&place, format!("cannot listen on {}: {}", cannot.name, cannot.error), "this address", None);
    }

    /// Adds the spool's objections, except for sections that have a fault already.
    pub fn objections(&mut self, objections: Vec<ConfigObjection>) {
        for ConfigObjection { subject, text } in objections {
            let named = |section, at: Option<usize>| {
                // Objections to sections missing from the file are placed at its end.
                ConfigLocation { section, index: at.unwrap_or(usize::MAX), key: None }
            };
            let place = match subject {
                ObjectionSubject::Buffer(name) => {
                    named("buffer", self.config.buffers.iter().position(|b| b.name == name))
                }
                ObjectionSubject::Class(name) => {
                    named("class", self.config.classes.iter().position(|c| c.name == name))
                }
                ObjectionSubject::Whole => named("rule", None),
            };
            if !self.known.contains(&place) {
                let label = if place.index == usize::MAX { "not in this file" } else { "in this section" };
                self.add(&place, text, label, None);
            }
        }
    }

    /// Returns the faults as an error, if there are any.
    pub fn none(&mut self) -> Result<(), ConfigError> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut faults = std::mem::take(&mut self.found);
        faults.sort_by_key(|fault| (fault.span.start, fault.span.end));
        Err(ConfigError::Faulty { file: self.file.to_owned(), text: self.text.to_owned(), faults })
    }
}
