//! The screen of `top`, as lines, from two reports of a server and the keys typed. Independent of a terminal.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Instant;

use crate::cli::status;
use crate::cli::table::{Columns, status_table};
use operators::feed::{FeedCommand, FeedOperation};
use operators::report::{FeedStatus, PeerStatus, Report, ServerStatus};
use operators::trouble;
use operators::trouble::{ReportedProblem, Severity};
use site_base::figures::{FigureCell, FigurePlace, ShownFigures};
use site_base::units::{about_size, about_span, counted, grouped};

/// Number of rates kept.
const RATES_MAX: usize = 120;
/// Lines of trouble on the first page.
const TROUBLES_MAX: usize = 4;
/// Characters for rates, from the lowest to the highest.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const HELP: &str = "\
up, down    choose a peer
Enter       show everything about it; again or Esc: back
s           sort peers by the next column: name, accepted from, sent to, lag
p           pause the feed to the chosen peer, or start it again
r           look again now
h           this page; again or Esc: back
q, Ctrl-C   quit

Rates are those between the last two looks. The curves show the last looks, the newest on the right.";

/// A line and its style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScreenLine {
    pub text: String,
    pub style: LineStyle,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStyle {
    Plain,
    Head,
    /// First and last line, and the selected one.
    Bar,
    /// Trouble.
    Bad,
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPress {
    Up,
    Down,
    Enter,
    Back,
    Quit,
    Other(u8),
}

impl KeyPress {
    /// Decodes the bytes that a terminal sends for a key.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match bytes {
            // Closed terminal, or Ctrl-C.
            [] | [3, ..] | [b'q', ..] => Self::Quit,
            b"\x1b[A" | b"\x1bOA" | [b'k', ..] => Self::Up,
            b"\x1b[B" | b"\x1bOB" | [b'j', ..] => Self::Down,
            [b'\r' | b'\n', ..] => Self::Enter,
            [0x1b] => Self::Back,
            [byte, ..] => Self::Other(*byte),
        }
    }
}

/// Action of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Stay,
    Look,
    Quit,
    Ask(FeedOperation),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopPage {
    All,
    Peer,
    Help,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerSort {
    Name,
    From,
    To,
    Lag,
}

impl PeerSort {
    /// Returns the head of the column.
    fn head(self) -> &'static str {
        match self {
            Self::Name => "peer",
            Self::From => "from/s",
            Self::To => "to/s",
            Self::Lag => "lag",
        }
    }
}

/// Reports of the server and state of the screen.
pub(super) struct TopView {
    now: (Report, Instant),
    before: Option<(Report, Instant)>,
    accepted: VecDeque<f64>,
    sent: VecDeque<f64>,
    page: TopPage,
    sort: PeerSort,
    /// The chosen peer.
    chosen: Option<String>,
    said: String,
}

impl TopView {
    pub(super) fn new(report: Report, at: Instant) -> Self {
        let chosen = report.server.as_ref().and_then(|server| Some(server.peers.first()?.name.clone()));
        Self {
            now: (report, at),
            before: None,
            accepted: VecDeque::new(),
            sent: VecDeque::new(),
            page: TopPage::All,
            sort: PeerSort::Name,
            chosen,
            said: String::new(),
        }
    }

    /// Takes the next report.
    pub(super) fn take(&mut self, report: Report, at: Instant) {
        self.before = Some(std::mem::replace(&mut self.now, (report, at)));
        let sent = |server: &ServerStatus| {
            server.peers.iter().filter_map(|peer| Some(peer.feed.as_ref()?.accepted)).sum()
        };
        let rate = |growth| self.per_second(growth);
        let (accepted, sent) = (rate(self.growth(|server| server.accepted)), rate(self.growth(sent)));
        for (rates, rate) in [(&mut self.accepted, accepted), (&mut self.sent, sent)] {
            rates.push_back(rate);
            if rates.len() > RATES_MAX {
                rates.pop_front();
            }
        }
    }

    /// Shows a message until the next key.
    pub(super) fn say(&mut self, text: String) {
        self.said = text;
    }

    pub(super) fn press(&mut self, key: KeyPress) -> KeyAction {
        self.said.clear();
        let toggled = |page, now| if now == page { TopPage::All } else { page };
        match key {
            KeyPress::Quit => return KeyAction::Quit,
            KeyPress::Back => self.page = TopPage::All,
            KeyPress::Enter if self.chosen.is_some() => self.page = toggled(TopPage::Peer, self.page),
            KeyPress::Other(b'h' | b'?') => self.page = toggled(TopPage::Help, self.page),
            KeyPress::Other(b'r') => return KeyAction::Look,
            KeyPress::Other(b's') => {
                self.sort = match self.sort {
                    PeerSort::Name => PeerSort::From,
                    PeerSort::From => PeerSort::To,
                    PeerSort::To => PeerSort::Lag,
                    PeerSort::Lag => PeerSort::Name,
                };
            }
            KeyPress::Other(b'p') => return self.pause(),
            KeyPress::Up | KeyPress::Down => {
                let names: Vec<String> = self.peers().iter().map(|peer| peer.name.clone()).collect();
                let at = names.iter().position(|name| Some(name) == self.chosen.as_ref()).unwrap_or(0);
                let next = if key == KeyPress::Up { at.saturating_sub(1) } else { at + 1 };
                self.chosen = names.get(next).or(names.last()).cloned();
            }
            KeyPress::Enter | KeyPress::Other(_) => {}
        }
        KeyAction::Stay
    }

    /// Pauses the feed to the chosen peer, or starts it.
    fn pause(&mut self) -> KeyAction {
        let Some(feed) = self.chosen_peer().and_then(|peer| peer.feed.as_ref()) else {
            self.said = "nothing is sent to this peer".into();
            return KeyAction::Stay;
        };
        if feed.state == "elsewhere" {
            self.said = "another member of the cluster feeds this peer".into();
            return KeyAction::Stay;
        }
        let command = if feed.state == "stopped" { FeedCommand::Start } else { FeedCommand::Stop };
        let peer = self.chosen.clone().unwrap_or_default();
        KeyAction::Ask(FeedOperation { peer, command })
    }

    fn chosen_peer(&self) -> Option<&PeerStatus> {
        let server = self.now.0.server.as_ref()?;
        server.peers.iter().find(|peer| Some(&peer.name) == self.chosen.as_ref())
    }

    /// Returns the growth of a figure of the server since the look before.
    fn growth(&self, figure: impl Fn(&ServerStatus) -> u64) -> u64 {
        let before = self.before.as_ref().and_then(|(report, _)| report.server.as_ref());
        let (Some(before), Some(now)) = (before, &self.now.0.server) else { return 0 };
        // The figures of a restarted server begin at zero.
        figure(now).saturating_sub(figure(before))
    }

    /// Returns a growth since the look before, per second.
    fn per_second(&self, growth: u64) -> f64 {
        let Some((_, then)) = &self.before else { return 0.0 };
        growth as f64 / self.now.1.duration_since(*then).as_secs_f64().max(0.001)
    }

    /// Returns the growth of a figure of a peer.
    fn peer_growth(&self, peer: &PeerStatus, figure: impl Fn(&PeerStatus) -> u64) -> u64 {
        self.growth(|server| server.peers.iter().find(|own| own.name == peer.name).map_or(0, &figure))
    }

    /// Returns the peers, sorted.
    fn peers(&self) -> Vec<&PeerStatus> {
        let Some(server) = &self.now.0.server else { return Vec::new() };
        let mut peers: Vec<&PeerStatus> = server.peers.iter().collect();
        let of_feed =
            |peer: &PeerStatus, figure: fn(&FeedStatus) -> u64| peer.feed.as_ref().map_or(0, figure);
        match self.sort {
            PeerSort::Name => peers.sort_by_key(|peer| peer.name.as_str()),
            PeerSort::From => {
                peers.sort_by_cached_key(|peer| Reverse(self.peer_growth(peer, |peer| peer.accepted)));
            }
            PeerSort::To => peers.sort_by_cached_key(|peer| {
                Reverse(self.peer_growth(peer, |peer| of_feed(peer, |feed| feed.accepted)))
            }),
            PeerSort::Lag => peers.sort_by_key(|peer| Reverse(of_feed(peer, |feed| feed.lag_articles))),
        }
        peers
    }

    /// Returns the lines of a screen of this size, at `now` (Unix seconds).
    pub(super) fn lines(&self, columns: usize, rows: usize, now: u64) -> Vec<ScreenLine> {
        let mut lines = vec![self.title()];
        let room = rows.saturating_sub(2);
        match (self.page, self.chosen_peer()) {
            (TopPage::Help, _) => lines.extend(plain(HELP)),
            (TopPage::Peer, Some(peer)) => lines.extend(details(peer, now)),
            _ => self.all(columns, room, now, &mut lines),
        }
        lines.resize(room + 1, ScreenLine { text: String::new(), style: LineStyle::Plain });
        lines.push(self.footer());
        lines.truncate(rows);
        for line in &mut lines {
            line.text = line.text.chars().take(columns).collect();
            if line.style == LineStyle::Bar {
                line.text = format!("{:columns$}", line.text);
            }
        }
        lines
    }

    fn title(&self) -> ScreenLine {
        let Report { version, path_identity, server, .. } = &self.now.0;
        let text = match server {
            Some(server) => format!(
                " newsreel {version}  {path_identity}  process {}, up {}",
                server.pid,
                about_span(server.uptime_secs)
            ),
            None => format!(" newsreel {version}  {path_identity}: no server runs"),
        };
        ScreenLine { text, style: LineStyle::Bar }
    }

    fn footer(&self) -> ScreenLine {
        let text = match self.said.as_str() {
            "" => " q quit  h help  s sort  Enter peer  p pause or start  r look now".into(),
            said => format!(" {said}"),
        };
        ScreenLine { text, style: LineStyle::Bar }
    }

    /// Adds the first page: figures, trouble, peers, buffers, classes.
    fn all(&self, columns: usize, room: usize, now: u64, lines: &mut Vec<ScreenLine>) {
        let begun = lines.len();
        lines.extend(plain(&self.figures(columns)));
        let mut troubles = trouble::all(&self.now.0, now);
        // Notes about waiting requests have no room here.
        troubles.retain(|trouble| trouble.weight != Severity::Note);
        let more = troubles.len().saturating_sub(TROUBLES_MAX);
        let line = |trouble: ReportedProblem| ScreenLine { text: trouble.what, style: LineStyle::Bad };
        lines.extend(troubles.into_iter().take(TROUBLES_MAX).map(line));
        if more > 0 {
            lines.push(ScreenLine {
                text: format!("and {more} more; see newsreel status"),
                style: LineStyle::Bad,
            });
        }
        let left = room.saturating_sub(lines.len() - begun);
        let spool = &self.now.0.spool;
        let cluster = self.now.0.server.as_ref().and_then(|server| server.cluster.as_ref());
        let members =
            cluster.filter(|own| !own.members.is_empty()).map(|own| status::members_text(&own.members));
        let tables = [
            members.unwrap_or_default(),
            status_table("buffer", &spool.buffers, now),
            status_table("class", &spool.classes, now),
        ];
        let below: Vec<ScreenLine> = tables.iter().flat_map(|text| table(text, left / 4)).collect();
        let peers = self.peer_table(left.saturating_sub(below.len()), now);
        lines.extend(peers.into_iter().chain(below));
    }

    fn figures(&self, columns: usize) -> String {
        let Report { server, spool, .. } = &self.now.0;
        let server = server.clone().unwrap_or_default();
        let width = columns.saturating_sub(30).min(RATES_MAX);
        let curve = |what: &str, rates: &VecDeque<f64>| {
            let rate = rates.back().copied().unwrap_or_default();
            format!("{what} {:>9} articles/s  {}", per_second(rate), sparkline(rates, width))
        };
        let memory = match resident_bytes(server.pid) {
            Some(bytes) => format!("{} of memory", about_size(bytes)),
            None => "memory is not known".into(),
        };
        [
            curve("in ", &self.accepted),
            curve("out", &self.sent),
            format!(
                "{} open, {} refused; {} served; {} failed logins",
                counted(server.connections, "connection"),
                grouped(server.refused),
                counted(server.readers_served, "reader"),
                grouped(server.logins.failed),
            ),
            format!(
                "{} in {}; {memory}; {} not durable yet",
                counted(spool.articles, "article"),
                counted(spool.groups, "group"),
                about_size(spool.undurable_bytes),
            ),
        ]
        .join("\n")
    }

    /// Adds the columns of a peer, or of a part of it.
    fn with_columns<'t, 'p, F: ShownFigures>(
        &self,
        table: Columns<'t, &'p PeerStatus>,
        now: u64,
        of: impl Fn(&PeerStatus) -> Option<&F>,
    ) -> Columns<'t, &'p PeerStatus> {
        F::columns(FigurePlace::Top).fold(table, |table, column| {
            let growth = |peer: &PeerStatus, figure: fn(&F) -> u64| {
                per_second(self.per_second(self.peer_growth(peer, |peer| of(peer).map_or(0, figure))))
            };
            let cell = |peer: &&PeerStatus| match (of(peer), &column.cell) {
                (None, _) => String::new(),
                (Some(_), FigureCell::Growth(figure)) => growth(peer, *figure),
                (Some(figures), _) => column.text(figures, now),
            };
            let head = self.marked(column.head);
            if column.is_number() { table.right(&head, cell) } else { table.left(&head, cell) }
        })
    }

    /// Returns the head of a column, with a star if it is the one by which peers are sorted.
    fn marked(&self, head: &str) -> String {
        if head == self.sort.head() { format!("{head}*") } else { head.to_owned() }
    }

    /// Returns the peers, as many as there is room for, around the chosen one.
    fn peer_table(&self, room: usize, now: u64) -> Vec<ScreenLine> {
        let rows = self.peers();
        if rows.is_empty() || room < 3 {
            return Vec::new();
        }
        let table = Columns::of(&rows).left(&self.marked("peer"), |peer| peer.name.clone());
        let table = self.with_columns(table, now, |peer| Some(peer));
        let table = self.with_columns(table, now, |peer| peer.feed.as_ref()).text();
        let chosen = rows.iter().position(|peer| Some(&peer.name) == self.chosen.as_ref()).unwrap_or(0);
        let shown = room - 2;
        let first = (chosen + 1).saturating_sub(shown);
        let mut texts = table.lines();
        let head = ScreenLine { text: texts.next().unwrap_or_default().to_owned(), style: LineStyle::Head };
        let style = |at: usize| if at == chosen { LineStyle::Bar } else { LineStyle::Plain };
        let body = texts.enumerate().map(|(at, text)| ScreenLine { text: text.to_owned(), style: style(at) });
        let blank = ScreenLine { text: String::new(), style: LineStyle::Plain };
        [blank, head].into_iter().chain(body.skip(first).take(shown)).collect()
    }
}

fn plain(text: &str) -> Vec<ScreenLine> {
    text.lines().map(|text| ScreenLine { text: text.to_owned(), style: LineStyle::Plain }).collect()
}

/// Returns a table below an empty line, in at most `room` lines.
fn table(text: &str, room: usize) -> Vec<ScreenLine> {
    if text.is_empty() || room < 3 {
        return Vec::new();
    }
    let mut lines = plain(text);
    let more = lines.len().saturating_sub(room - 1);
    if more > 0 {
        lines.truncate(room - 2);
        lines.extend(plain(&format!("and {} more", more + 1)));
    }
    if let Some(head) = lines.first_mut() {
        head.style = LineStyle::Head;
    }
    lines.insert(0, ScreenLine { text: String::new(), style: LineStyle::Plain });
    lines
}

fn per_second(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 { format!("{rate:.1}") } else { grouped(rate.round() as u64) }
}

/// Draws the last rates as a curve, relative to the highest.
fn sparkline(rates: &VecDeque<f64>, width: usize) -> String {
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let step = |rate: &f64| match highest > 0.0 && *rate > 0.0 {
        true => STEPS[((rate / highest * 8.0).ceil() as usize).clamp(1, 8) - 1],
        false => ' ',
    };
    rates.iter().skip(rates.len().saturating_sub(width)).map(step).collect()
}

/// Returns the resident memory of a process of this machine, in bytes.
fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Returns everything about a peer.
fn details(peer: &PeerStatus, now: u64) -> Vec<ScreenLine> {
    let head = |text: String| ScreenLine { text, style: LineStyle::Head };
    let mut lines = vec![head(format!("peer {}", peer.name))];
    add_figures(peer, now, &mut lines);
    let Some(feed) = &peer.feed else {
        lines.extend(plain("  nothing is sent to it"));
        return lines;
    };
    lines.push(head("the feed to it".to_owned()));
    add_figures(feed, now, &mut lines);
    lines.extend(feed.missed_ids.iter().flat_map(|id| plain(&format!("  missed: {id}"))));
    for article in &feed.set_aside_articles {
        lines.extend(plain(&format!("  odd answer to {}: {}", article.message_id, article.answer)));
    }
    if let Some(output) = &feed.output {
        lines.push(head("its output".to_owned()));
        add_figures(output, now, &mut lines);
    }
    lines
}

/// Adds a line for each figure that a table of `newsreel status` shows.
fn add_figures<F: ShownFigures>(of: &F, now: u64, lines: &mut Vec<ScreenLine>) {
    lines.extend(of.details(now).into_iter().map(|(column, text)| ScreenLine {
        text: format!("  {:<16}{text}", column.head),
        style: if column.is_trouble() { LineStyle::Bad } else { LineStyle::Plain },
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use operators::report::{BufferReport, ClassReport, SpoolStatus};
    use std::time::Duration;

    fn report(peers: u64, accepted: u64) -> Report {
        let feed = |at: u64| FeedStatus {
            state: if at == 1 { "stopped" } else { "sending" }.into(),
            accepted: accepted * 2,
            lag_articles: at * 100,
            last_error: (at == 2).then(|| "no route to host\x1b[2J".to_owned()),
            ..FeedStatus::default()
        };
        let peer = |at: u64| PeerStatus {
            name: format!("peer{at:02}.example.net"),
            accepted: accepted / peers,
            feed: (at > 0).then(|| feed(at)),
            ..PeerStatus::default()
        };
        let server = ServerStatus {
            pid: 1,
            accepted,
            peers: (0..peers).map(peer).collect(),
            ..ServerStatus::default()
        };
        let buffer = |at: u64| BufferReport {
            name: format!("text{at}"),
            size_bytes: 1 << 30,
            ..BufferReport::default()
        };
        let class = ClassReport {
            name: "text".into(),
            stays_secs: Some(86_400),
            keep_target_secs: Some(10 * 86_400),
            ..ClassReport::default()
        };
        let spool = SpoolStatus {
            measured: 1_800_000_000,
            buffers: (0..8).map(buffer).collect(),
            classes: vec![class],
            ..SpoolStatus::default()
        };
        Report {
            version: "0.1.0".into(),
            path_identity: "news.example.org".into(),
            server: Some(server),
            spool,
        }
    }

    fn view(peers: u64) -> TopView {
        let start = Instant::now();
        let mut view = TopView::new(report(peers, 1_000), start);
        view.take(report(peers, 2_000), start + Duration::from_secs(2));
        view
    }

    fn texts(view: &TopView, size: (usize, usize)) -> Vec<String> {
        let lines = view.lines(size.0, size.1, 1_800_000_000);
        assert_eq!(lines.len(), size.1);
        assert!(lines.iter().all(|line| line.text.chars().count() <= size.0), "{lines:#?}");
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn screen_of_any_size_shows_as_much_as_fits() {
        let view = view(40);
        let small = texts(&view, (80, 24)).join("\n");
        for part in [
            "news.example.org",
            "500 articles/s",
            "peer00.example.net",
            "Articles of class text stay",
            "text0",
            "q quit",
        ] {
            assert!(small.contains(part), "{part}:\n{small}");
        }
        let large = texts(&view, (200, 60)).join("\n");
        assert!(
            large.contains("peer30.example.net") && large.contains("text7") && !large.contains("more; see"),
            "{large}"
        );
        for size in [(0, 0), (1, 1), (20, 5), (79, 9), (500, 300)] {
            texts(&view, size);
        }
        for page in [b'h', b's', b's', b's'] {
            let mut view = self::view(3);
            view.press(KeyPress::Other(page));
            texts(&view, (80, 24));
        }
    }

    #[test]
    fn keys_choose_sort_and_pause() {
        let mut view = view(4);
        let first = |view: &TopView| view.peers()[0].name.clone();
        assert_eq!(view.press(KeyPress::Other(b'p')), KeyAction::Stay);
        assert!(texts(&view, (80, 24))[23].contains("nothing is sent to this peer"));
        view.press(KeyPress::Down);
        let asked = |command| KeyAction::Ask(FeedOperation { peer: "peer01.example.net".into(), command });
        assert_eq!(view.press(KeyPress::Other(b'p')), asked(FeedCommand::Start));
        (0..9).for_each(|_| _ = view.press(KeyPress::Down));
        assert_eq!(view.chosen.as_deref(), Some("peer03.example.net"));
        let KeyAction::Ask(FeedOperation { command, .. }) = view.press(KeyPress::Other(b'p')) else {
            panic!()
        };
        assert_eq!(command, FeedCommand::Stop);
        view.press(KeyPress::Enter);
        assert!(texts(&view, (80, 24)).join("\n").contains("state           sending"));
        view.press(KeyPress::Back);
        assert_eq!(first(&view), "peer00.example.net");
        (0..3).for_each(|_| _ = view.press(KeyPress::Other(b's')));
        assert_eq!(first(&view), "peer03.example.net");
        (0..9).for_each(|_| _ = view.press(KeyPress::Up));
        assert_eq!(view.chosen.as_deref(), Some("peer03.example.net"));
        assert_eq!(view.press(KeyPress::of(&[3])), KeyAction::Quit);
        assert_eq!(
            (KeyPress::of(b"\x1b[A"), KeyPress::of(b"\x1b"), KeyPress::of(b"")),
            (KeyPress::Up, KeyPress::Back, KeyPress::Quit)
        );
    }

    #[test]
    fn curves_are_drawn_against_their_highest_point() {
        let rates: VecDeque<f64> = [0.0, 1.0, 4.0, 8.0].into();
        assert_eq!(sparkline(&rates, 10), " ▁▄█");
        assert_eq!(sparkline(&rates, 2), "▄█");
        assert_eq!(
            (per_second(0.0), per_second(1.25), per_second(1234.4)),
            ("0".into(), "1.2".into(), "1,234".into())
        );
    }
}
