//! Room for an import: compared before, and counted after.
//!
//! In cyclic buffers the newest articles displace the oldest, so an import that is larger than its class's
//! buffers keeps only its end. Called by `import`.

use disk::{Disk, RealDisk};
use serde::Serialize;
use spool::Token;

use super::super::screen::CliError;
use super::target::ImportTarget;
use migrate::plan::ImportPlan;
use operators::buffers::BufferOperation;
use operators::control_socket::import::CountLivingOperation;
use operators::reply::Reply;
use site_base::units::{about_size, counted, grouped};
use site_config::{ArticleCompression, Class, Config, Method};

/// Tokens in one request.
const TOKENS_PER_REQUEST: usize = 100_000;

/// Room that an import needs in one class.
#[derive(Debug, Serialize)]
pub(super) struct ClassRoom {
    pub class: String,
    pub articles: u64,
    /// Size of the articles, before compression.
    pub needed_bytes: u64,
    /// Capacity of the class; absent if not known.
    pub capacity_bytes: Option<u64>,
    /// Estimated number of articles that would still be there at the end.
    pub staying: u64,
    #[serde(skip)]
    compressed: bool,
}

impl ClassRoom {
    /// Returns whether all articles have room.
    pub fn fits(&self) -> bool {
        self.staying == self.articles
    }

    pub fn line(&self) -> String {
        let Self { class, articles, needed_bytes, .. } = self;
        let before = if self.compressed { " before compression" } else { "" };
        let head = format!(
            "class {class}: {} of {} together{before}",
            counted(*articles, "article"),
            about_size(*needed_bytes)
        );
        match self.capacity_bytes {
            None => head,
            Some(0) => format!("class {class}: {}, of which it keeps nothing", counted(*articles, "article")),
            Some(bytes) if self.fits() => format!("{head}, it has room for {}", about_size(bytes)),
            Some(bytes) => format!(
                "{head}, but it has room for {} only: about {} would stay, the newest",
                about_size(bytes),
                grouped(self.staying)
            ),
        }
    }
}

/// Compares a plan with the classes that the rules choose for its articles.
pub(super) fn compare(
    config: &Config,
    plan: &ImportPlan,
    target: &mut ImportTarget,
) -> Result<Vec<ClassRoom>, CliError> {
    let mut areas: Vec<(String, u64)> = Vec::new();
    target.ask(config, BufferOperation::list(), &mut |reply| {
        if let Reply::Buffer(row) = reply
            && !row.retired
        {
            areas.push((row.class, row.area_bytes));
        }
    })?;
    let mut rooms = Vec::new();
    for (number, class) in config.classes.iter().enumerate() {
        let order = plan.order.iter().chain(&plan.unnumbered);
        let bytes: Vec<u64> = order.filter_map(|article| plan.weight(*article, number)).collect();
        if bytes.is_empty() {
            continue;
        }
        let capacity_bytes = capacity(class, &areas);
        let mut left = capacity_bytes.unwrap_or(u64::MAX);
        let fits = |bytes: &&u64| {
            let rest = left.checked_sub(**bytes);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let staying = match class.method {
            // Nothing is meant to stay.
            Method::Trash => bytes.len(),
            _ => bytes.iter().rev().take_while(fits).count(),
        };
        let staying = staying as u64;
        rooms.push(ClassRoom {
            class: class.name.clone(),
            articles: bytes.len() as u64,
            needed_bytes: bytes.iter().sum(),
            capacity_bytes,
            staying,
            compressed: class.compress == ArticleCompression::Zstd,
        });
    }
    Ok(rooms)
}

/// Refuses mails of this total size if no class that keeps articles in buffers has that much free: in cyclic
/// buffers they would displace older articles, also those of other groups.
pub(super) fn refuse_mails(config: &Config, bytes: u64, target: &mut ImportTarget) -> Result<(), CliError> {
    let mut free: Vec<(String, u64, u64)> = Vec::new();
    target.ask(config, BufferOperation::list(), &mut |reply| {
        let Reply::Buffer(row) = reply else { return };
        if row.retired {
            return;
        }
        let left = row.area_bytes.saturating_sub(row.used_bytes);
        match free.iter_mut().find(|(class, ..)| *class == row.class) {
            Some((_, area, free)) => {
                *area += row.area_bytes;
                *free += left;
            }
            None => free.push((row.class, row.area_bytes, left)),
        }
    })?;
    let is_cyclic = |class: &Class| matches!(class.method, Method::Cnfs);
    let Some((class, area, left)) = free.iter().max_by_key(|(.., left)| *left) else { return Ok(()) };
    if config.classes.iter().any(|class| !is_cyclic(class)) || bytes <= *left {
        return Ok(());
    }
    Err(CliError::Problem(format!(
        "these files have {}, and the buffers of class {class}, {} in all, have {} left: older articles would be \
         displaced, of other groups too; make room (newsreel buffer grow, newsreel buffer add), or give --yes",
        about_size(bytes),
        about_size(*area),
        about_size(*left)
    )))
}

/// Returns the capacity of a class, if known.
fn capacity(class: &Class, areas: &[(String, u64)]) -> Option<u64> {
    match class.method {
        Method::Cnfs => Some(areas.iter().filter(|(of, _)| *of == class.name).map(|(_, bytes)| bytes).sum()),
        Method::Memory => Some(class.size),
        Method::Trash => Some(0),
        Method::AppendOnly if class.files_max > 0 => Some(class.file_size.saturating_mul(class.files_max)),
        _ => Some(RealDisk::new().file_system(class.path.as_ref()?).ok()?.free_bytes),
    }
}

/// Counts the filed articles that are still there.
pub(super) fn count_living(
    config: &Config,
    filed: &[Token],
    target: &mut ImportTarget,
) -> Result<u64, CliError> {
    let mut living = 0;
    for tokens in filed.chunks(TOKENS_PER_REQUEST) {
        let tokens = tokens.iter().map(Token::to_hex).collect();
        target.ask(config, CountLivingOperation { tokens }, &mut |reply| {
            if let Reply::Count(count) = reply {
                living += count;
            }
        })?;
    }
    Ok(living)
}
