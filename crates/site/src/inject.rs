//! The injecting agent (RFC 5537 section 3.5): takes proto-articles from readers who post.
//!
//! Checks the proto-article, completes it, and passes it to `ingest` like any other article, or to
//! `moderation`. A refusal says what is wrong, since only the injecting agent can tell the poster. The rules
//! are those of `netnews::injection`, together with this site's groups, rights and limits. Called by
//! `session`; never by `relay` or `serve`.

mod approving;
mod backoff;
mod elsewhere;
mod filtering;
mod groups;
mod poster;
mod refusal;
mod secret;
mod signing;
mod stamp;

pub(crate) use poster::Poster;
pub use refusal::PostRefusal;
pub use secret::{Secret, is_whole as is_secret_whole};

use crate::moderation::{HeldPost, ModerationQueue, SubmitError};
use crate::site::Site;
use backoff::{BackoffLimits, PosterKey, PostingPaces};
use disk::Disk;
use filtering::JudgedPost;
use groups::PostDestination;
use ingest::checks;
use ingest::{DeferralReason, Disposition, IncomingArticle, Opinion, Origin, WithdrawalRefusal};
use netnews::Article;
use netnews::injection::{self, InjectionError, InjectionRules};
use netnews::nntp::response::{append_standard, code};
use poster::Author;
use refusal::shown;
use site_base::clock::unix_now;
use site_config::{Access, Config, LiveConfig, NamePattern};
use spool::TroubleKind;
use stamp::InjectionMarks;
use std::fmt::{self, Display};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tracing::{debug, error, info};
use upstreams::Upstreams;

/// State shared by all posts.
#[derive(Debug)]
pub struct Injector {
    disk: Arc<dyn Disk>,
    config: LiveConfig,
    /// Read at the start, or when first needed if that failed.
    secret: OnceLock<Secret>,
    paces: PostingPaces,
    moderation: Arc<ModerationQueue>,
    upstreams: Upstreams,
}

/// An accepted post.
struct AcceptedPost {
    message_id: String,
    /// The text after `240 Article`.
    answer: String,
    /// The group to whose moderator it was mailed.
    moderated: Option<String>,
    /// Why it withdraws nothing, although it should withdraw another article.
    not_withdrawn: Option<WithdrawalRefusal>,
}

impl Display for AcceptedPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.moderated, &self.not_withdrawn) {
            (None, None) => write!(f, "Article {}", self.answer)?,
            (None, Some(why)) => write!(f, "Article {}, but withdraws nothing: {why}", self.answer)?,
            (Some(group), _) => write!(f, "Queued for the moderator of {}", shown(group.as_bytes()))?,
        }
        write!(f, " {}", self.message_id)
    }
}

impl AcceptedPost {
    /// An accepted post of which nothing else is known.
    fn quietly(message_id: String) -> Self {
        Self { message_id, answer: "received OK".into(), moderated: None, not_withdrawn: None }
    }
}

impl Injector {
    /// Reads the site's secret, or makes it; without it readers are served and posts refused. `moderation`
    /// and `upstreams` take the posts that are not filed.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: &LiveConfig,
        moderation: Arc<ModerationQueue>,
        upstreams: Upstreams,
    ) -> Self {
        let (secret, paces, config) = (OnceLock::new(), PostingPaces::default(), config.clone());
        let injector = Self { disk, config, secret, paces, moderation, upstreams };
        let _refused_later = injector.read_secret();
        injector
    }

    /// Returns the queue of posts to moderated groups.
    pub fn moderation(&self) -> &ModerationQueue {
        &self.moderation
    }

    fn read_secret(&self) -> Result<&Secret, PostRefusal> {
        match Secret::open(&*self.disk, &self.config.load().site.data) {
            Ok(secret) => Ok(self.secret.get_or_init(|| secret)),
            Err(error) => {
                error!(%error, "posts are refused");
                Err(PostRefusal::NoSecret)
            }
        }
    }

    /// Returns the site's secret; tried again at each post until it can be read.
    fn secret(&self) -> Result<&Secret, PostRefusal> {
        self.secret.get().map_or_else(|| tokio::task::block_in_place(|| self.read_secret()), Ok)
    }

    /// Checks a proto-article and decides where it goes.
    async fn judge(
        &self,
        config: &Config,
        site: &Site,
        article: &Article<'_>,
        poster: &Poster<'_>,
        now: i64,
    ) -> Result<PostDestination, PostRefusal> {
        let rules = rules(config);
        injection::check_headers(article, &rules, now)?;
        if !checks::distributed(article, &config.site.distributions) {
            return Err(PostRefusal::UnwantedDistribution);
        }
        let table = site.spool.group_table();
        // Boxed: asking other servers would make every session larger.
        let may_read = |name: &[u8]| poster.access.read.matches(name);
        let takers = Box::pin(elsewhere::takers(&self.upstreams, article, may_read, &table)).await;
        let carried = |name: &[u8]| self.upstreams.delivery().taker_of_carried(name);
        let takers = groups::PostTakers { listed: &takers, of_carried: &carried };
        let way = groups::judge(article, poster, &table, &takers)?;
        injection::check_body(article, &rules)?;
        Ok(way)
    }

    /// Handles a proto-article sent by POST, and appends the answer.
    pub async fn post(&self, site: &Site, poster: Option<Poster<'_>>, wire: &[u8], out: &mut Vec<u8>) {
        let Some(poster) = poster else { return append_failure(out, &PostRefusal::NotPermitted) };
        match self.take(site, &poster, wire).await {
            // Writing to a vector does not fail.
            Ok(taken) => _ = write!(out, "240 {taken}\r\n"),
            Err(refusal) => {
                debug!(address = poster.address_text, user = poster.user.unwrap_or_default(), %refusal, "post refused");
                append_failure(out, &refusal);
            }
        }
    }

    /// Takes a proto-article of the operator, who may post to every group; returns the answer.
    pub async fn post_of_operator(&self, site: &Site, wire: &[u8]) -> Result<String, PostRefusal> {
        let (access, address) = (Access::of_operator(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address_text = &address.to_string();
        let poster = Poster { access: &access, address, address_text, user: None };
        Ok(self.take(site, &poster, wire).await?.to_string())
    }

    async fn take(&self, site: &Site, poster: &Poster<'_>, wire: &[u8]) -> Result<AcceptedPost, PostRefusal> {
        if site.filer.paused().is_some() {
            return Err(PostRefusal::paused(&site.filer));
        }
        let now = unix_now();
        let article = Article::parse(wire)?;
        let config = self.config.current();
        let way = self.judge(&config, site, &article, poster, now).await?;
        let marks = InjectionMarks::of(&article, poster.author(), &config, self.secret()?);
        let who = PosterKey::new(poster.user, poster.address);
        self.paces
            .post(&BackoffLimits::of(&config.posting), who, Instant::now())
            .map_err(PostRefusal::TooFast)?;
        let to_moderator = matches!(way, PostDestination::Moderator(_));
        let complete = injection::complete(&article, &marks.stamp(&config, now, to_moderator));
        let judged = site.filer.with_filters(|filters| filtering::judge(filters, poster, complete))?;
        if judged.is_dropped {
            let user = poster.user.unwrap_or_default();
            info!(address = poster.address_text, user, id = marks.message_id, "post thrown away by a filter");
            return Ok(AcceptedPost::quietly(marks.message_id));
        }
        let (moderated, (answer, not_withdrawn)) = match way {
            PostDestination::File { here, elsewhere } => {
                (None, self.send(site, poster, here, elsewhere, &marks.message_id, judged).await?)
            }
            PostDestination::Moderator(group) => {
                self.submit(site, &group, &marks.message_id, &judged.wire, poster.author(), now)?;
                (Some(group), Default::default())
            }
        };
        info!(
            address = poster.address_text,
            user = poster.user.unwrap_or_default(),
            id = marks.message_id,
            logging_data = marks.logging_data,
            moderator_of = moderated.as_deref().unwrap_or_default(),
            "posted"
        );
        if let Some(why) = not_withdrawn {
            let user = poster.user.unwrap_or_default();
            info!(address = poster.address_text, user, id = marks.message_id, %why, "the post withdraws nothing");
        }
        Ok(AcceptedPost { message_id: marks.message_id, answer, moderated, not_withdrawn })
    }

    /// Files a checked article in groups that are carried here, and sends it to the upstreams that have its
    /// other groups: all or nothing, as far as that can be known. Returns the text for the poster, and why
    /// nothing is withdrawn.
    async fn send(
        &self,
        site: &Site,
        poster: &Poster<'_>,
        here: Vec<Box<[u8]>>,
        mut elsewhere: Vec<Arc<str>>,
        message_id: &str,
        judged: JudgedPost,
    ) -> Result<(String, Option<WithdrawalRefusal>), PostRefusal> {
        let is_aside = matches!(judged.opinion, Opinion::Aside(_));
        // Not sent on, so it is filed here.
        if is_aside || judged.opinion == Opinion::Keep {
            elsewhere.clear();
        }
        let is_filed = !here.is_empty() || is_aside;
        if !is_filed && elsewhere.is_empty() {
            return Err(PostRefusal::Rejected(ingest::Reject::by_filter("it is not passed on")));
        }
        let config = self.config.current();
        let author = poster.author();
        let outbox =
            elsewhere::queue(&self.upstreams, &elsewhere, message_id, &judged.wire, author, &config)?;
        let not_withdrawn = match is_filed {
            true => file(site, author, Some(&poster.access.read), here, judged).await?,
            false => None,
        };
        // Boxed, as above.
        let fates = if elsewhere.is_empty() { Vec::new() } else { Box::pin(outbox.send(is_filed)).await };
        Ok((elsewhere::answer(&fates, is_filed)?, not_withdrawn))
    }

    /// Queues a proto-article for the moderator of `group`; it is on disk when this returns.
    fn submit(
        &self,
        site: &Site,
        group: &str,
        id: &str,
        complete: &[u8],
        author: Author<'_>,
        now: i64,
    ) -> Result<(), PostRefusal> {
        let spool = &site.spool;
        if spool.is_known(&spool.key(id.as_bytes())) || spool.is_hash_known(id.as_bytes()) {
            tokio::task::block_in_place(|| site.spool.settle()).map_err(|_| PostRefusal::Trouble)?;
            return Err(PostRefusal::Rejected(ingest::Reject::Duplicate));
        }
        let article = Article::parse(complete)?;
        let post = HeldPost {
            message_id: id.to_owned(),
            group: group.to_owned(),
            address: author.address_text.to_owned(),
            user: author.user.unwrap_or_default().to_owned(),
            queued: now,
            wire: complete.to_vec(),
        };
        tokio::task::block_in_place(|| self.moderation.submit(&article, post)).map_err(|not| match not {
            SubmitError::Known => PostRefusal::Rejected(ingest::Reject::Duplicate),
            SubmitError::NoAddress => PostRefusal::NoModerator(shown(group.as_bytes())),
            SubmitError::Full => PostRefusal::QueueFull(self.config.load().moderation.queue_max),
            SubmitError::Io => PostRefusal::Trouble,
        })
    }
}

/// Returns the rules for proto-articles.
fn rules(config: &Config) -> InjectionRules {
    let (site, posting) = (&config.site, &config.posting);
    InjectionRules {
        article_bytes_max: posting.article_bytes_max.unwrap_or(u64::MAX).min(site.article_bytes_max),
        age_secs_max: site.max_age_days.map(|days| i64::from(days) * 86_400),
        groups_max: posting.groups_max,
        followup_groups_max: posting.followup_groups_max,
        line_bytes_max: posting.line_bytes_max,
        check_quoted: posting.check_quoted,
    }
}

/// Files a complete article in these of its groups; `read` has the groups that its author may read. Returns
/// why it withdraws nothing, if it should withdraw another article.
async fn file(
    site: &Site,
    author: Author<'_>,
    read: Option<&NamePattern>,
    groups: Vec<Box<[u8]>>,
    judged: JudgedPost,
) -> Result<Option<WithdrawalRefusal>, PostRefusal> {
    let incoming = IncomingArticle { wire: &judged.wire, claimed_id: None };
    let mut dispositions = Vec::new();
    let origin = Origin::injected(author.address_text, read, groups).judged(judged.opinion, &judged.by);
    let receipt = site.filer.ingest(&origin, &[incoming], &mut dispositions).await;
    if let Some(ticket) = receipt.ticket {
        site.durable(ticket).await.map_err(|_| PostRefusal::Trouble)?;
    }
    let is_in_doubt = receipt.trouble.is_some_and(|trouble| trouble.kind == TroubleKind::InDoubt);
    match dispositions.first() {
        Some(Disposition::TryLater) if is_in_doubt => {
            let id = Article::parse(&judged.wire)
                .ok()
                .and_then(|article| article.message_id().map(|id| shown(id.as_bytes())));
            Err(PostRefusal::InDoubt(id.unwrap_or_default()))
        }
        Some(Disposition::Accepted(_)) => Ok(receipt.pending.and_then(|pending| site.filer.settle(&pending))),
        Some(Disposition::Rejected(reject)) => Err(PostRefusal::Rejected(reject.clone())),
        Some(Disposition::Deferred(DeferralReason::Unjudged)) => Err(PostRefusal::Unjudged),
        Some(Disposition::Deferred(DeferralReason::Paused)) => Err(PostRefusal::paused(&site.filer)),
        Some(Disposition::TryLater | Disposition::Deferred(DeferralReason::ClassFull)) | None => {
            Err(PostRefusal::Trouble)
        }
    }
}

/// Answers a proto-article that exceeded the size limit.
pub(crate) fn post_too_large(site: &Site, out: &mut Vec<u8>) {
    let bytes_max = rules(&site.config.load()).article_bytes_max;
    append_failure(out, &PostRefusal::Objection(InjectionError::TooLarge { bytes_max }));
}

/// Returns true if a client with this access may post at all.
pub(crate) fn may_post(access: Option<&Access>) -> bool {
    access.is_some_and(|access| !access.post.is_empty())
}

/// Answers POST before the article comes; returns true if it may come.
pub(crate) fn offer(access: Option<&Access>, out: &mut Vec<u8>) -> bool {
    let may = may_post(access);
    append_standard(out, if may { code::SEND_POST } else { code::POSTING_NOT_PERMITTED });
    may
}

/// Appends `441 reason`.
fn append_failure(out: &mut Vec<u8>, reason: &impl Display) {
    // Writing to a vector does not fail.
    let _infallible = write!(out, "441 {reason}\r\n");
}
