//! Names of files below INN's patharticles: tradspool, timehash or timecaf.
//!
//! Text in, values out. Called by `import::walk`. Source: storage.conf(5).

/// Kind of a file, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpoolFileKind {
    /// An article of a group.
    Trad {
        /// The group.
        group: String,
        /// Number of the article in the group.
        number: u64,
    },
    /// An article stored by its arrival.
    TimeHash {
        /// Arrival in Unix seconds.
        arrived: u32,
    },
    /// A file of many articles.
    TimeCaf,
    /// Not a file of the spool.
    Other,
}

/// Returns the kind of the file with these path components below patharticles.
pub fn named(parts: &[&str]) -> SpoolFileKind {
    timehash(parts).or_else(|| timecaf(parts)).or_else(|| trad(parts)).unwrap_or(SpoolFileKind::Other)
}

/// Parses `time-NN/bb/cc/yyyy-aadd`: the arrival is aabbccdd.
fn timehash(parts: &[&str]) -> Option<SpoolFileKind> {
    let [top, b, c, name] = parts else { return None };
    top.strip_prefix("time-")?;
    let (_, ad) = name.split_once('-')?;
    let ad = hex(ad, 4)?;
    let arrived = (ad >> 8) << 24 | hex(b, 2)? << 16 | hex(c, 2)? << 8 | ad & 0xff;
    Some(SpoolFileKind::TimeHash { arrived })
}

/// Parses `timecaf-NN/bb/aacc.CF`.
fn timecaf(parts: &[&str]) -> Option<SpoolFileKind> {
    let [top, b, name] = parts else { return None };
    top.strip_prefix("timecaf-")?;
    hex(b, 2)?;
    hex(name.strip_suffix(".CF")?, 4)?;
    Some(SpoolFileKind::TimeCaf)
}

/// Parses `group/name/number`; a dot after a component of digits alone, as in our own tree
/// (`docs/formats/tree.md`), is removed.
fn trad(parts: &[&str]) -> Option<SpoolFileKind> {
    let (number, names) = parts.split_last()?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let plain = |part: &&'_ str| part.strip_suffix('.').filter(|p| digits(p)).map_or(part.len(), str::len);
    let names: Vec<&str> = names.iter().filter_map(|part| part.get(..plain(part))).collect();
    let group = names.join(".");
    netnews::newsgroups::valid_name(group.as_bytes()).then_some(SpoolFileKind::Trad { group, number })
}

fn hex(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits).then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_storage_conf() {
        let parts = |path: &'static str| named(&path.split('/').collect::<Vec<_>>());
        assert_eq!(parts("time-00/01/26/0057-6b08"), SpoolFileKind::TimeHash { arrived: 0x6b01_2608 });
        assert_eq!(parts("timecaf-00/01/6b26.CF"), SpoolFileKind::TimeCaf);
        assert_eq!(parts("alt/med/java/2"), SpoolFileKind::Trad { group: "alt.med.java".into(), number: 2 });
        assert_eq!(parts("junk/17"), SpoolFileKind::Trad { group: "junk".into(), number: 17 });
        for path in ["alt/2600/7", "alt/2600./7"] {
            assert_eq!(parts(path), SpoolFileKind::Trad { group: "alt.2600".into(), number: 7 });
        }
        for other in [
            "time-00/01/26/x",
            "timecaf-00/01/6b26.BAK",
            "alt/med/.overview",
            "7",
            "alt/0",
            "a b/3",
            "alt/99999999999999999999",
        ] {
            assert_eq!(parts(other), SpoolFileKind::Other, "{other}");
        }
    }
}
