//! `import mbox|maildir|rnews`: articles from files of mails and batches.
//!
//! One thread reads and converts texts to articles, another files them, parcel by parcel. Articles filed
//! before count as duplicates, so an interrupted import can simply be run again.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use disk::Progress;
use netnews::mbox::{MboxSplitter, MboxStep};

use super::super::args::MailOptions;
use super::super::bar::Bar;
use super::super::group;
use super::super::locate::SiteLocation;
use super::super::screen::{CliError, complain, say, say_json};
use super::copies::Copies;
use super::groups;
use super::room::ClassRoom;
use super::tally::ImportTally;
use super::target::{ImportParcel, ImportTarget, ParcelArticle, message_ids};
use super::{count_what_stays, has_room, refuse, room};
use ingest::batches::{BatchReader, UnpackedBatch};
use migrate::mails::adopt::{ConversionHints, ConvertedArticle, OldHeaders, adopt, divide};
use migrate::mails::folders;
use migrate::mails::folders::{MailFile, MailFormat};
use migrate::mails::rules::{GroupChoice, GroupRule};
use migrate::plan::weigh_article;
use migrate::source::ARTICLE_BYTES_MAX;
use operators::control_socket::import::BATCH_ARTICLES_MAX;
use operators::groups::{GroupAddOperation, GroupEntry};
use operators::reply::Reply;
use site_base::units::grouped;
use site_config::Config;
use spool::{Estimator, inn_hash};

/// Size of a parcel that is sent without waiting for more, in bytes.
const PARCEL_BYTES: usize = 1 << 20;
/// Parcels read ahead.
const PARCELS_AHEAD: usize = 2;
/// Read size, in bytes.
const READ_BYTES: usize = 1 << 20;
/// Read of a file to see when its first article arrived, in bytes.
const HEAD_BYTES: u64 = 64 << 10;
/// Read failures that are reported one by one.
const TOLD_MAX: u64 = 20;

/// Unit that the reading thread hands over.
#[derive(Default)]
struct MailLoad {
    parcel: ImportParcel,
    /// Location of each article, for messages.
    names: Vec<String>,
    /// Groups of its articles.
    groups: Vec<String>,
    /// Texts that are no articles, and the reasons.
    damaged: Vec<String>,
    /// Directory of copies of these texts.
    quarantine: Option<PathBuf>,
    /// Bytes read so far.
    done: u64,
}

pub(super) fn mails(form: MailFormat, options: &MailOptions, at: &SiteLocation) -> Result<(), CliError> {
    let config = at.load()?;
    let sources = folders::find(form, &options.paths)
        .map_err(|error| CliError::Usage(format!("cannot import from {error}")))?;
    if sources.is_empty() {
        return Err(CliError::Usage("there are no such files in what was named".into()));
    }
    let mut target = ImportTarget::new(&config, options.dry_run)?;
    let prepared = prepare(&config, options, &mut target);
    let room = match prepared.and_then(|()| measure(&config, form, options, &sources, &mut target)) {
        Ok(room) => room,
        Err(failure) => {
            target.close()?;
            return Err(failure);
        }
    };
    let data = (!options.dry_run).then_some(config.site.data.as_path());
    let copies = Copies::of(data);
    let mut tally = ImportTally { dry_run: options.dry_run, copies, room, ..ImportTally::default() };
    if !has_room(&tally.room, options.json)? && !options.dry_run && !options.yes {
        target.close()?;
        return refuse(&tally, options.json);
    }
    let began = Instant::now();
    let bar = Bar::new();
    let result = run(&config, form, options, &sources, &mut target, &mut tally, &bar);
    bar.finish();
    if result.is_ok() && (!options.dry_run || !tally.room.is_empty()) {
        count_what_stays(&config, &mut target, &mut tally)?;
    }
    target.close()?;
    tally.seconds = began.elapsed().as_secs_f64();
    match options.json {
        true => say_json(&tally)?,
        false => tally.lines(began.elapsed()).iter().try_for_each(say)?,
    }
    if !options.dry_run {
        group::advise_on_moderators(&config)?;
    }
    result.and(if tally.lacks_some() { Err(CliError::Told) } else { Ok(()) })
}

/// Checks before anything is read whether the named groups exist.
fn prepare(config: &Config, options: &MailOptions, target: &mut ImportTarget) -> Result<(), CliError> {
    let known = groups::highs(config, target)?;
    let named = options.group.iter().map(String::as_str).chain(options.rules.iter().map(GroupRule::target));
    let missing: Vec<&str> = named.filter(|name| !known.contains_key(*name)).collect();
    if let (false, [first, ..]) = (options.create_groups, missing.as_slice()) {
        return Err(CliError::Usage(format!(
            "there is no group {first} here; give --create-groups to add it, or: newsreel group add {first}"
        )));
    }
    Ok(())
}

/// Compares the room that the articles of the files need, except those that are known here, with what is
/// free.
/// Returns nothing if the files are so small that there is no need to look into them.
fn measure(
    config: &Config,
    form: MailFormat,
    options: &MailOptions,
    sources: &[MailFile],
    target: &mut ImportTarget,
) -> Result<Vec<ClassRoom>, CliError> {
    if room::suffices(config, sources.iter().map(unpacked_bytes).sum(), target)? {
        return Ok(Vec::new());
    }
    let estimator = Estimator::new(&config.spool_config())?;
    let mut weights: room::ClassWeights = vec![Vec::new(); config.classes.len()];
    let mut seen = HashSet::new();
    let choice = GroupChoice { group: options.group.clone(), rules: options.rules.clone() };
    let bar = Bar::new();
    bar.start("looking through the articles", sources.iter().map(|source| source.bytes).sum());
    std::thread::scope(|scope| {
        let (sender, loads) = sync_channel(PARCELS_AHEAD);
        scope.spawn(move || MailReader::new(choice, None, config, sender).all(form, sources));
        for load in loads {
            let articles = load.parcel.imported();
            let ids = message_ids(&articles);
            let known = target.known(config, &ids)?;
            for ((article, id), known) in articles.iter().zip(&ids).zip(known) {
                if known || !seen.insert(inn_hash(id.as_bytes())) {
                    continue;
                }
                let words = article.places.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                let groups: Vec<&[u8]> = words.map(|word| word.strip_suffix(b":0").unwrap_or(word)).collect();
                let weight = weigh_article(&estimator, article.wire, &groups, article.arrived);
                let Some((class, bytes)) = weight else { continue };
                weights.get_mut(class).into_iter().for_each(|sizes| sizes.push(bytes));
            }
            bar.step(load.done);
        }
        Ok::<_, CliError>(())
    })?;
    bar.finish();
    room::compare(config, &weights, target)
}

/// Returns the size of a file, which may be compressed. Read errors are reported by the import.
fn unpacked_bytes(source: &MailFile) -> u64 {
    let unpacked = source.open().and_then(|file| io::copy(&mut UnpackedBatch::new(file), &mut io::sink()));
    unpacked.map_or(source.bytes, |bytes| bytes.max(source.bytes))
}

fn run(
    config: &Config,
    form: MailFormat,
    options: &MailOptions,
    sources: &[MailFile],
    target: &mut ImportTarget,
    tally: &mut ImportTally,
    bar: &Bar,
) -> Result<(), CliError> {
    let mut known: HashSet<String> = groups::highs(config, target)?.into_keys().collect();
    let choice = GroupChoice { group: options.group.clone(), rules: options.rules.clone() };
    let began = Instant::now();
    bar.start("importing", sources.iter().map(|source| source.bytes).sum());
    std::thread::scope(|scope| {
        let (sender, loads) = sync_channel(PARCELS_AHEAD);
        let data = (!options.dry_run).then_some(config.site.data.as_path());
        scope.spawn(move || MailReader::new(choice, data, config, sender).all(form, sources));
        for load in loads {
            tally.damaged += load.damaged.len() as u64;
            tally.quarantine = load.quarantine.clone().or(tally.quarantine.take());
            let told = tally.damaged <= TOLD_MAX;
            load.damaged.iter().filter(|_| told).for_each(|what| complain(format_args!("newsreel: {what}")));
            if options.create_groups {
                create(config, &load.groups, &mut known, target, tally)?;
            }
            file(config, &load, target, tally)?;
            bar.step(load.done);
            let rate = tally.imported as f64 / began.elapsed().as_secs_f64().max(0.001);
            bar.note(&format!("{} articles a second", grouped(rate as u64)));
        }
        Ok(())
    })
}

/// Adds missing groups.
fn create(
    config: &Config,
    named: &[String],
    known: &mut HashSet<String>,
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    let fresh: Vec<&String> = named.iter().filter(|name| known.insert((*name).clone())).collect();
    tally.groups_added += fresh.len() as u64;
    if fresh.is_empty() || tally.dry_run {
        return Ok(());
    }
    group::advise_on_names(fresh.iter().map(|name| name.as_str()));
    let entry =
        |name: &&String| GroupEntry { name: (*name).clone(), flag: "y".into(), ..GroupEntry::default() };
    let groups = fresh.iter().map(entry).collect();
    target.ask(config, GroupAddOperation { groups }, &mut |reply| {
        if let Reply::Changed { name, error: Some(error), .. } = reply {
            complain(format_args!("newsreel: group {name} was not added: {error}"));
            tally.groups_added -= 1;
        }
    })?;
    Ok(())
}

fn file(
    config: &Config,
    load: &MailLoad,
    target: &mut ImportTarget,
    tally: &mut ImportTally,
) -> Result<(), CliError> {
    let results = target.file(config, &load.parcel)?;
    for ((result, name), packed) in results.iter().zip(&load.names).zip(&load.parcel.articles) {
        if result.is_trouble() {
            return Err(CliError::Problem(format!(
                "the spool stopped accepting: {}; once that is repaired, run the import again to continue \
                 where this one ended",
                result.reason
            )));
        }
        tally.count(result, false, load.parcel.wire(packed), &|| name.clone());
    }
    Ok(())
}

/// State of the reading thread.
struct MailReader {
    copies: Copies,
    choice: GroupChoice,
    /// Longest mail: a longer one cannot become an article of the site.
    mail_bytes_max: u32,
    loads: SyncSender<MailLoad>,
    load: MailLoad,
}

/// Location of a text in its source.
#[derive(Clone, Copy)]
struct TextLocation<'a> {
    source: &'a MailFile,
    at: u64,
    arrived: Option<i64>,
}

/// Error: nothing receives what is read any more.
struct ReceiverClosed;

impl MailReader {
    fn new(choice: GroupChoice, data: Option<&Path>, config: &Config, loads: SyncSender<MailLoad>) -> Self {
        let bytes_max = config.site.article_bytes_max.min(ARTICLE_BYTES_MAX.into());
        let mail_bytes_max = u32::try_from(bytes_max).unwrap_or(ARTICLE_BYTES_MAX);
        Self { copies: Copies::of(data), choice, mail_bytes_max, loads, load: MailLoad::default() }
    }

    /// Notes what is no article, and keeps a copy of it.
    fn damaged(&mut self, about: &str, text: &[u8]) {
        let kept = self.copies.keep(text);
        self.load.quarantine.clone_from(&self.copies.dir);
        self.load.damaged.push(format!("{about}{kept}"));
    }

    /// Reads all files; one that cannot be read counts as damaged.
    fn all(mut self, form: MailFormat, sources: &[MailFile]) {
        let mut sources: Vec<&MailFile> = sources.iter().collect();
        if sources.len() > 1 {
            sources.sort_by_cached_key(|source| first_arrival(form, source).unwrap_or(source.changed));
        }
        let mut before = 0;
        for source in sources {
            let read = match form {
                MailFormat::Mbox => self.mbox(source, before),
                MailFormat::Maildir => self.mail(source),
                MailFormat::Rnews => self.rnews(source, before),
            };
            match read {
                Ok(Ok(())) => {}
                Ok(Err(ReceiverClosed)) => return,
                Err(error) => self.load.damaged.push(format!("{source}: cannot be read: {error}")),
            }
            before += source.bytes;
            self.load.done = before;
        }
        // After a failure, which has been reported, nothing receives it.
        let _unheard = self.loads.send(self.load);
    }

    fn mbox(&mut self, source: &MailFile, before: u64) -> io::Result<Result<(), ReceiverClosed>> {
        let mut file = UnpackedBatch::new(source.open()?);
        let mut splitter = MboxSplitter::new(self.mail_bytes_max as usize);
        let (mut window, mut start, mut at, mut is_end) = (Vec::new(), 0, 0_u64, false);
        let mut text = Vec::new();
        loop {
            let bytes = match splitter.step(window.get(start..).unwrap_or_default(), is_end) {
                MboxStep::More => {
                    window.drain(..start);
                    start = 0;
                    let len = window.len();
                    window.resize(len + len.max(READ_BYTES), 0);
                    let read = read_some(&mut file, window.get_mut(len..).unwrap_or_default());
                    window.truncate(len + read.as_ref().map_or(0, |read| *read));
                    is_end = read? == 0;
                    continue;
                }
                MboxStep::End => return Ok(Ok(())),
                MboxStep::Skip(bytes) => bytes,
                MboxStep::Damaged(bytes, why) => {
                    self.load.damaged.push(format!("{source} at {at}: {why}"));
                    bytes
                }
                MboxStep::Mail(bytes, mail) => {
                    text.clear();
                    mail.append_text(&mut text);
                    let arrived = mail.arrived.filter(|secs| *secs > 0);
                    if self.text(&text, TextLocation { source, at, arrived }).is_err() {
                        return Ok(Err(ReceiverClosed));
                    }
                    bytes
                }
            };
            start += bytes;
            at += bytes as u64;
            self.load.done = before + at.min(source.bytes);
        }
    }

    fn mail(&mut self, source: &MailFile) -> io::Result<Result<(), ReceiverClosed>> {
        if source.bytes > u64::from(self.mail_bytes_max) {
            let words = format!("the mail is too large (at most {} bytes)", self.mail_bytes_max);
            return Err(io::Error::other(words));
        }
        let text = fs::read(&source.path)?;
        let arrived = folders::delivered(&source.path);
        Ok(self.text(&text, TextLocation { source, at: 0, arrived }))
    }

    fn rnews(&mut self, source: &MailFile, before: u64) -> io::Result<Result<(), ReceiverClosed>> {
        let mut batch = BatchReader::new(source.open()?, self.mail_bytes_max.into());
        while let Some(parcel) = batch.next_parcel()? {
            for piece in parcel.pieces() {
                if let Some(fault) = piece.fault {
                    self.damaged(&format!("{source} at {}: {fault}", piece.at), piece.raw);
                } else if self.text(piece.raw, TextLocation { source, at: piece.at, arrived: None }).is_err()
                {
                    return Ok(Err(ReceiverClosed));
                }
                self.load.done = before + piece.at.min(source.bytes);
            }
        }
        batch.damage().map_or(Ok(Ok(())), |why| Err(io::Error::other(why.to_owned())))
    }

    /// Converts a text to an article and packs it.
    fn text(&mut self, text: &[u8], place: TextLocation<'_>) -> Result<(), ReceiverClosed> {
        let head = divide(text).0;
        let newsgroups = OldHeaders::of(head).newsgroups;
        let chosen = self.choice.groups(head, newsgroups, place.source.folder.as_deref());
        let groups = chosen.unwrap_or_default();
        let hints =
            ConversionHints { arrived: place.arrived, file_time: place.source.changed, groups: &groups };
        let name = || format!("{} at {}", place.source, place.at);
        let ConvertedArticle { wire, arrived } = match adopt(text, &hints) {
            Ok(adopted) => adopted,
            Err(why) => {
                self.damaged(&format!("{}: {why}", name()), text);
                return Ok(());
            }
        };
        let is_full = self.load.parcel.bytes.len() + wire.len() > PARCEL_BYTES
            || self.load.parcel.articles.len() >= BATCH_ARTICLES_MAX;
        if is_full && !self.load.parcel.articles.is_empty() {
            let done = self.load.done;
            self.loads.send(std::mem::take(&mut self.load)).map_err(|_| ReceiverClosed)?;
            self.load.done = done;
        }
        self.note_groups(newsgroups, &groups);
        let bytes = &mut self.load.parcel.bytes;
        let start = bytes.len();
        bytes.extend_from_slice(&wire);
        let places = bytes.len();
        groups.iter().for_each(|group| bytes.extend_from_slice(format!("{group}:0 ").as_bytes()));
        self.load.parcel.articles.push(ParcelArticle {
            article: self.load.names.len() as u32,
            arrived,
            wire: start..places,
            places: places..bytes.len(),
        });
        self.load.names.push(name());
        Ok(())
    }

    /// Records the groups of an article, in case they are to be created.
    fn note_groups(&mut self, newsgroups: &[u8], chosen: &[String]) {
        let own = newsgroups.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|_| chosen.is_empty());
        let own = own
            .filter(|name| netnews::newsgroups::valid_name(name))
            .filter_map(|name| std::str::from_utf8(name).ok());
        for name in own.chain(chosen.iter().map(String::as_str)) {
            if !self.load.groups.iter().any(|other| other == name) {
                self.load.groups.push(name.to_owned());
            }
        }
    }
}

/// Arrival time of the first article of a file, Unix seconds. Unreadable articles are reported at import.
fn first_arrival(form: MailFormat, source: &MailFile) -> io::Result<i64> {
    let mut hints = ConversionHints { arrived: None, file_time: source.changed, groups: &[] };
    let mut begun = Vec::new();
    match form {
        MailFormat::Maildir => {
            hints.arrived = folders::delivered(&source.path);
            if hints.arrived.is_none() {
                source.open()?.take(HEAD_BYTES).read_to_end(&mut begun)?;
            }
        }
        MailFormat::Rnews => {
            let mut batch = BatchReader::new(source.open()?, u64::from(ARTICLE_BYTES_MAX));
            let parcel = batch.next_parcel()?;
            let first = parcel.iter().flat_map(|parcel| parcel.pieces()).find(|piece| piece.fault.is_none());
            begun.extend_from_slice(first.map(|piece| piece.raw).unwrap_or_default());
        }
        MailFormat::Mbox => {
            let mut window = Vec::new();
            UnpackedBatch::new(source.open()?).take(HEAD_BYTES).read_to_end(&mut window)?;
            let (mut splitter, mut start) = (MboxSplitter::new(ARTICLE_BYTES_MAX as usize), 0);
            loop {
                start += match splitter.step(window.get(start..).unwrap_or_default(), true) {
                    MboxStep::Skip(bytes) | MboxStep::Damaged(bytes, _) => bytes,
                    MboxStep::Mail(_, mail) => {
                        hints.arrived = mail.arrived.filter(|secs| *secs > 0);
                        mail.append_text(&mut begun);
                        break;
                    }
                    MboxStep::More | MboxStep::End => break,
                };
            }
        }
    }
    Ok(hints.arrival(&OldHeaders::of(divide(&begun).0)))
}

fn read_some(from: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
