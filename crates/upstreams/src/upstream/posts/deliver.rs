//! Delivery of posts: finds the upstreams that take them, queues them for all, then sends them to each.

use super::super::questions::{AskExists, IdStatus};
use super::super::table::{Upstream, UpstreamTable};
use super::queue::QueuedPost;
use super::sending::{AskPost, PostAnswer};
use super::{PostEntry, QueuePostError, RETRY, UpstreamPosts};
use arc_swap::ArcSwap;
use hashbrown::HashMap;
use netnews::{Article, Known, newsgroups};
use site_base::file_name::FileName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{Id, JoinSet, block_in_place};
use tracing::{error, info, warn};

/// Interval of questions whether another member of the cluster sends posts.
const LEAD_INTERVAL: Duration = Duration::from_secs(1);

/// Upstream that takes posts to a group of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostTaker {
    /// The upstream of this name.
    Upstream(Arc<str>),
    /// None, by the configuration.
    Nobody,
}

/// Result of sending a post to one upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostResult {
    /// The upstream has taken it.
    Taken,
    /// The post waits, for this reason.
    Waits(String),
    /// The upstream has refused it, with this text.
    Refused(String),
}

/// A post that is queued for some upstreams, and not being sent yet. If dropped, it is removed from the
/// queue.
pub struct Outbox {
    delivery: PostDelivery,
    /// Files of the post, each with its upstream.
    names: Vec<(Arc<str>, FileName)>,
}

/// Delivery of posts to the upstreams of a site.
#[derive(Clone)]
pub struct PostDelivery {
    table: Arc<ArcSwap<UpstreamTable>>,
    posts: Arc<UpstreamPosts>,
}

impl PostDelivery {
    pub(in super::super) fn new(table: Arc<ArcSwap<UpstreamTable>>, posts: Arc<UpstreamPosts>) -> Self {
        Self { table, posts }
    }

    /// Returns the posts that wait for upstreams.
    pub fn posts(&self) -> &Arc<UpstreamPosts> {
        &self.posts
    }

    /// Returns who takes posts to a group that is not carried here; `None` if no upstream has the group. If
    /// its upstream cannot be asked, the group is taken to exist.
    pub async fn taker(&self, group: &[u8]) -> Option<PostTaker> {
        let table = self.table.load_full();
        let numbering = table.numbering(group)?;
        let is_there = match numbering.group_soon(group).await {
            Ok(Some(group)) => !matches!(group.marks().await, Ok(None)),
            Ok(None) => false,
            Err(_) => newsgroups::valid_name(group),
        };
        is_there.then(|| table.taker(group).map_or(PostTaker::Nobody, PostTaker::Upstream))
    }

    /// Returns the upstream that also takes posts to a group carried here.
    pub fn taker_of_carried(&self, group: &[u8]) -> Option<Arc<str>> {
        self.table.load().taker_of_carried(group)
    }

    /// Queues a post, built by `post` for each of these upstreams. Blocks.
    pub fn queue_post(
        &self,
        to: &[Arc<str>],
        max: usize,
        post: impl Fn(&str) -> QueuedPost,
    ) -> Result<Outbox, QueuePostError> {
        let mut outbox = Outbox { delivery: self.clone(), names: Vec::new() };
        for upstream in to {
            outbox.names.push((upstream.clone(), self.posts.put(&post(upstream), max)?));
        }
        Ok(outbox)
    }

    /// Sends queued posts, forever: those of each upstream in a task of its own, so that none waits for
    /// another upstream. Where `leads` returns false, another member of the cluster sends them.
    pub(in super::super) async fn keep_posting(&self, leads: impl Fn(&str) -> bool) {
        let mut sending = JoinSet::new();
        let mut upstreams = HashMap::<Id, Arc<str>>::new();
        loop {
            let is_busy = |upstream: &Arc<str>| upstreams.values().any(|busy| busy == upstream);
            let due: Vec<_> =
                self.posts.due().into_iter().filter(|(upstream, _)| !is_busy(upstream)).collect();
            let (own, others) = due.into_iter().partition::<Vec<_>, _>(|(upstream, _)| leads(upstream));
            for (upstream, names) in own {
                let task = sending.spawn(self.clone().send_in_order(upstream.clone(), names));
                upstreams.insert(task.id(), upstream);
            }
            let is_elsewhere = |upstream: &Arc<str>| others.iter().any(|(other, _)| other == upstream);
            let pause = self.posts.next_due(|upstream| {
                is_elsewhere(upstream) || upstreams.values().any(|busy| busy == upstream)
            });
            let pause = if others.is_empty() { pause } else { pause.min(LEAD_INTERVAL) };
            tokio::select! {
                () = self.posts.fresh.notified() => {}
                () = tokio::time::sleep(pause) => {}
                Some(ended) = sending.join_next_with_id() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    upstreams.remove(&id);
                }
            }
        }
    }

    /// Sends posts to an upstream, in order, until it is away.
    async fn send_in_order(self, upstream: Arc<str>, names: Vec<FileName>) {
        let mut names = names.into_iter();
        while let Some(name) = names.next() {
            if let Some(PostResult::Waits(problem)) = self.send(&name, false).await
                && self.is_away(&upstream)
            {
                // The others fail as well.
                names.for_each(|name| self.posts.change(&name, |entry| entry.failed(&problem)));
                return;
            }
        }
    }

    fn is_away(&self, upstream: &str) -> bool {
        self.table.load().named(upstream).is_none_or(|upstream| upstream.pool.is_away())
    }

    /// Sends one post, unless another task does. `is_told`: its poster gets the answer if it is refused.
    async fn send(&self, name: &FileName, is_told: bool) -> Option<PostResult> {
        let posts = &self.posts;
        let was_tried = posts.begin(name, is_told)?;
        let post = block_in_place(|| posts.queue.read(name));
        let Some(post) = post else {
            posts.entries.lock().remove(name);
            return None;
        };
        let table = self.table.load_full();
        let fate = match table.named(&post.upstream) {
            None => PostResult::Waits(format!("no [[upstream]] is called {}", post.upstream)),
            Some(upstream) => self.ask(upstream, &post, was_tried, is_told).await,
        };
        if fate == PostResult::Taken {
            table.is_posted(&post);
        }
        block_in_place(|| posts.settle(name, post, &fate, is_told));
        Some(fate)
    }

    /// Sends a post. If its poster waits, a silent upstream is not waited for. `was_tried`: the upstream may
    /// have it from an earlier attempt.
    async fn ask(
        &self,
        upstream: &Upstream,
        post: &QueuedPost,
        was_tried: bool,
        is_told: bool,
    ) -> PostResult {
        let pool = &upstream.pool;
        let has = || AskExists(post.message_id.as_bytes().into());
        let question = AskPost(post.wire.clone());
        let answer = match is_told {
            true => pool.soon_taken(pool.ask(question), post.wire.len()).await,
            false => pool.ask_apart(question).await,
        };
        match answer {
            Ok(PostAnswer::Taken) => PostResult::Taken,
            Ok(PostAnswer::Known(_)) if was_tried => PostResult::Taken,
            Ok(PostAnswer::Refused(_))
                if was_tried && pool.ask_apart(has()).await == Ok(IdStatus::Present) =>
            {
                PostResult::Taken
            }
            Ok(PostAnswer::Known(text) | PostAnswer::Refused(text)) => PostResult::Refused(text),
            Ok(PostAnswer::Later(text)) => PostResult::Waits(text),
            Err(trouble) => PostResult::Waits(trouble.to_string()),
        }
    }
}

impl UpstreamPosts {
    /// Returns the posts that are due now, by upstream, oldest first.
    fn due(&self) -> BTreeMap<Arc<str>, Vec<FileName>> {
        let (now, mut due) = (Instant::now(), BTreeMap::<Arc<str>, Vec<(u64, FileName)>>::new());
        for (name, entry) in self.entries.lock().iter() {
            if !entry.refused && !entry.is_busy && entry.due <= now {
                due.entry(entry.upstream.clone()).or_default().push((entry.queued, name.clone()));
            }
        }
        let in_order = |mut names: Vec<(u64, FileName)>| {
            names.sort_unstable();
            names.into_iter().map(|(_, name)| name).collect()
        };
        due.into_iter().map(|(upstream, names)| (upstream, in_order(names))).collect()
    }

    /// Returns how long until a post is due, for an upstream to which none is being sent.
    fn next_due(&self, is_busy: impl Fn(&Arc<str>) -> bool) -> Duration {
        let entries = self.entries.lock();
        let waiting = entries.values().filter(|entry| !entry.refused && !entry.is_busy);
        let waiting = waiting.filter(|entry| !is_busy(&entry.upstream));
        let next = waiting.map(|entry| entry.due.saturating_duration_since(Instant::now())).min();
        next.unwrap_or(RETRY.longest())
    }

    /// Marks a post as being sent; returns whether it may have arrived before, or `None` if it is not to be
    /// sent. `is_own`: the caller already holds it.
    fn begin(&self, name: &FileName, is_own: bool) -> Option<bool> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(name).filter(|entry| !entry.refused && entry.is_busy == is_own)?;
        entry.is_busy = true;
        Some(std::mem::replace(&mut entry.tried, true))
    }

    /// Records the result of sending a post. Blocks.
    fn settle(&self, name: &FileName, post: QueuedPost, fate: &PostResult, is_told: bool) {
        let (upstream, id) = (post.upstream.clone(), post.message_id.clone());
        match fate {
            PostResult::Taken => {
                info!(upstream, id, "posted to the upstream");
                if let Err(error) = self.remove(name) {
                    error!(upstream, id, %error, "a post that was sent cannot be removed; it will be sent again");
                }
                // Other posts for the same upstream need not wait longer.
                let mut entries = self.entries.lock();
                let others = entries.values_mut().filter(|entry| *entry.upstream == *upstream);
                others.for_each(|entry| entry.due = Instant::now());
                self.fresh.notify_one();
            }
            PostResult::Waits(problem) => {
                info!(upstream, id, problem, "a post waits for the upstream");
                self.change(name, |entry| {
                    entry.failed(problem);
                    entry.is_busy = false;
                });
                // This post may be due earlier than the one waited for.
                self.fresh.notify_one();
            }
            // The caller decides.
            PostResult::Refused(_) if is_told => {}
            PostResult::Refused(text) => self.refuse(name, post, text),
        }
    }

    /// Keeps a refused post for the operator. Blocks.
    pub(super) fn refuse(&self, name: &FileName, post: QueuedPost, text: &str) {
        let (upstream, id) = (post.upstream.clone(), post.message_id.clone());
        warn!(upstream, id, text, "the upstream has refused a post; see newsreel cache posts");
        if let Err(error) = self.queue.replace(name, &QueuedPost { refused: text.to_owned(), ..post }) {
            error!(upstream, id, %error, "it cannot be noted that a post was refused; it will be sent again");
        }
        self.change(name, |entry| {
            entry.failed(text);
            (entry.refused, entry.is_busy) = (true, false);
        });
    }

    fn change(&self, name: &FileName, change: impl FnOnce(&mut PostEntry)) {
        if let Some(entry) = self.entries.lock().get_mut(name) {
            change(entry);
        }
    }
}

impl UpstreamTable {
    /// Returns the upstream of this name.
    fn named(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.config.name == name)
    }

    /// Records that an upstream has taken a post: it is looked for in its groups even if it was not there a
    /// moment ago.
    fn is_posted(&self, post: &QueuedPost) {
        let Ok(article) = Article::parse(&post.wire) else { return };
        let names = article.header(Known::Newsgroups).unwrap_or_default();
        newsgroups::split(names)
            .for_each(|name| _ = self.numbering(name).map(|upstream| upstream.look_again(name)));
        if let Some(cache) = &self.cache {
            let owners = self.upstreams.iter().map(|upstream| upstream.config.owner());
            owners.for_each(|owner| cache.not_missing(owner, post.message_id.as_bytes()));
        }
    }
}

impl Outbox {
    /// Sends the post to each of its upstreams; returns the results, by their names. A refused post is kept
    /// for the operator if `is_filed` or if another upstream has not refused it. Continues if the caller
    /// stops waiting.
    pub async fn send(mut self, is_filed: bool) -> Vec<(Arc<str>, PostResult)> {
        let (delivery, names) = (self.delivery.clone(), std::mem::take(&mut self.names));
        let sent = tokio::spawn(async move {
            let mut fates = Vec::new();
            for (upstream, name) in names {
                let fate = delivery.send(&name, true).await;
                fates.push((
                    upstream,
                    name,
                    fate.unwrap_or_else(|| PostResult::Waits("it cannot be read".into())),
                ));
            }
            block_in_place(|| delivery.posts.told(fates, is_filed))
        });
        sent.await.unwrap_or_else(|error| {
            error!(%error, "sending a post ended");
            Vec::new()
        })
    }
}

impl UpstreamPosts {
    /// Keeps refused posts for the operator, or removes them if the poster gets all answers.
    fn told(
        &self,
        fates: Vec<(Arc<str>, FileName, PostResult)>,
        is_filed: bool,
    ) -> Vec<(Arc<str>, PostResult)> {
        let is_kept = is_filed || fates.iter().any(|(.., fate)| !matches!(fate, PostResult::Refused(_)));
        let mut told = Vec::new();
        for (upstream, name, fate) in fates {
            if let PostResult::Refused(text) = &fate {
                match self.queue.read(&name).filter(|_| is_kept) {
                    Some(post) => self.refuse(&name, post, text),
                    None => self.forget(&name),
                }
            }
            told.push((upstream, fate));
        }
        told
    }

    /// Removes a post whose poster was informed of the refusal. Blocks.
    fn forget(&self, name: &FileName) {
        if let Err(error) = self.remove(name) {
            error!(%name, %error, "a post that was refused cannot be removed");
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        for (_, name) in std::mem::take(&mut self.names) {
            block_in_place(|| self.delivery.posts.forget(&name));
        }
    }
}
