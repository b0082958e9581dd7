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
/// Factor by which an article may be larger in the spool than in a file of mails; small ones grow most.
const GROWTH_MAX: u64 = 8;

/// Room that an import needs in one class.
#[derive(Debug, Serialize)]
pub(super) struct ClassRoom {
    pub class: String,
    pub articles: u64,
    /// Size of the articles, before compression.
    pub needed_bytes: u64,
    /// Capacity of the class; absent if not known.
    pub capacity_bytes: Option<u64>,
    /// Part of the capacity in which nothing is stored.
    pub free_bytes: Option<u64>,
    /// Estimated number of articles that would still be there at the end.
    pub staying: u64,
    /// Estimated size of the articles stored there that would be displaced.
    pub older_displaced_bytes: u64,
    #[serde(skip)]
    compressed: bool,
}

impl ClassRoom {
    /// Returns whether all articles have room beside those that are there.
    pub fn fits(&self) -> bool {
        self.staying == self.articles && self.older_displaced_bytes == 0
    }

    pub fn line(&self) -> String {
        let Self { class, articles, needed_bytes, .. } = self;
        let before = if self.compressed { " before compression" } else { "" };
        let head = format!(
            "class {class}: {} of {} together{before}",
            counted(*articles, "article"),
            about_size(*needed_bytes)
        );
        let (Some(capacity), Some(free)) = (self.capacity_bytes, self.free_bytes) else { return head };
        if capacity == 0 {
            return format!("class {class}: {}, of which it keeps nothing", counted(*articles, "article"));
        }
        if self.fits() {
            return format!("{head}, it has room for {}", about_size(free));
        }
        let mut line = format!("{head}, but it has room for {} only", about_size(free));
        if self.older_displaced_bytes > 0 {
            let (displaced, capacity) = (about_size(self.older_displaced_bytes), about_size(capacity));
            line.push_str(&format!(
                " of its {capacity}: older articles would be displaced, of other groups too, about {displaced}"
            ));
        }
        if self.staying < self.articles {
            line.push_str(&format!(": about {} would stay, the newest", grouped(self.staying)));
        }
        line
    }
}

/// Sizes of the articles for each class of the configuration, in the order of the import.
pub(super) type ClassWeights = Vec<Vec<u64>>;

/// Returns the sizes of the articles of a plan that are not known here.
pub(super) fn planned(config: &Config, plan: &ImportPlan) -> ClassWeights {
    let of_class = |class| {
        let order = plan.order.iter().chain(&plan.unnumbered);
        order.filter_map(|article| plan.weight(*article, class)).collect()
    };
    (0..config.classes.len()).map(of_class).collect()
}

/// Compares the sizes of articles with the free space of the classes that the rules choose for them.
pub(super) fn compare(
    config: &Config,
    weights: &ClassWeights,
    target: &mut ImportTarget,
) -> Result<Vec<ClassRoom>, CliError> {
    let areas = areas(config, target)?;
    let mut rooms = Vec::new();
    for (class, bytes) in config.classes.iter().zip(weights).filter(|(_, bytes)| !bytes.is_empty()) {
        let space = ClassSpace::of(class, &areas);
        let needed_bytes: u64 = bytes.iter().sum();
        let mut left = space.map_or(u64::MAX, |space| space.capacity);
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
        let stored = space.map_or(0, |space| space.capacity - space.free);
        rooms.push(ClassRoom {
            class: class.name.clone(),
            articles: bytes.len() as u64,
            needed_bytes,
            capacity_bytes: space.map(|space| space.capacity),
            free_bytes: space.map(|space| space.free),
            staying: staying as u64,
            older_displaced_bytes: space.map_or(0, |s| needed_bytes.saturating_sub(s.free)).min(stored),
            compressed: class.compress == ArticleCompression::Zstd,
        });
    }
    Ok(rooms)
}

/// Returns whether articles of this total size, before conversion, have room in whichever class they come to.
pub(super) fn suffices(config: &Config, bytes: u64, target: &mut ImportTarget) -> Result<bool, CliError> {
    let areas = areas(config, target)?;
    let classes = config.classes.iter().filter(|class| !matches!(class.method, Method::Trash));
    let mut spaces = classes.filter_map(|class| ClassSpace::of(class, &areas));
    Ok(spaces.all(|space| bytes.saturating_mul(GROWTH_MAX) <= space.free))
}

/// The buffers in use, with their classes: space for articles, and used space.
fn areas(config: &Config, target: &mut ImportTarget) -> Result<Vec<(String, ClassSpace)>, CliError> {
    let mut areas = Vec::new();
    target.ask(config, BufferOperation::list(), &mut |reply| {
        if let Reply::Buffer(row) = reply
            && !row.retired
        {
            let free = row.area_bytes.saturating_sub(row.used_bytes);
            areas.push((row.class, ClassSpace { capacity: row.area_bytes, free }));
        }
    })?;
    Ok(areas)
}

/// Space of a class or buffer, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct ClassSpace {
    capacity: u64,
    free: u64,
}

impl ClassSpace {
    /// Returns the space of a class, if known.
    fn of(class: &Class, areas: &[(String, Self)]) -> Option<Self> {
        let empty = |capacity| Self { capacity, free: capacity };
        Some(match class.method {
            Method::Cnfs => {
                areas.iter().filter(|(of, _)| *of == class.name).fold(Self::default(), |sum, (_, area)| {
                    Self { capacity: sum.capacity + area.capacity, free: sum.free + area.free }
                })
            }
            Method::Memory => empty(class.size),
            Method::Trash => empty(0),
            Method::AppendOnly if class.files_max > 0 => {
                empty(class.file_size.saturating_mul(class.files_max))
            }
            _ => empty(RealDisk::new().file_system(class.path.as_ref()?).ok()?.free_bytes),
        })
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
