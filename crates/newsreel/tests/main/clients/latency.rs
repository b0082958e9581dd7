//! Clients over a slow link: a group's overview must take a few round trips, however many articles there are.
//!
//! Round trips are counted, not timed. A client that misses what it expects in LIST OVERVIEW.FMT fetches
//! every head one by one, which takes minutes over a real link.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use super::fed::{self, MANY};
use super::screen::Screen;
use super::tunnel::Tunnel;
use super::{installed, leafnode, scripts, slrn, suck, tin};
use crate::client::Client;
use crate::link::Link;

const ONE_WAY: Duration = Duration::from_millis(5);
/// Maximum number of round trips for a group's overview: GROUP, OVER, and queries about the server.
const OVERVIEW_TRIPS_MAX: usize = 10;

const GROUP: &str = "local.general";

fn link(address: SocketAddr) -> Link {
    Link::to(address, ONE_WAY)
}

#[test]
fn slrn_opens_a_long_group() {
    if !installed(slrn::PROGRAMS) {
        return;
    }
    let site = fed::long_site();
    let link = link(site.address());
    let home = slrn::home(site.dir());
    let settings = fs::read_to_string(home.join(".slrnrc")).unwrap() + "set query_read_group_cutoff 0\n";
    fs::write(home.join(".slrnrc"), settings).unwrap();
    fs::write(home.join("newsrc"), format!("{GROUP}:\n")).unwrap();
    let screen = Screen::start(&home, &format!("slrn -h 127.0.0.1 -p {} -f newsrc", link.port()));
    screen.wait_line(&["->", "400", GROUP]);
    let trips = link.round_trips(|| {
        screen.keys(&["Enter"]);
        screen.wait(&[&format!("[{MANY}/{MANY} unread] Group: {GROUP}"), "Story 001"]);
    });
    assert!((1..=OVERVIEW_TRIPS_MAX).contains(&trips), "{trips}, {:?}", link.passed());
}

#[test]
fn tin_opens_a_long_group() {
    if !installed(tin::PROGRAMS) {
        return;
    }
    let site = fed::long_site();
    let link = link(site.address());
    let home = tin::home(site.dir());
    let screen = Screen::start(&home, &format!("tin -r -g 127.0.0.1 -p {}", link.port()));
    screen.wait_line(&["2", "400", GROUP]);
    let trips = link.round_trips(|| {
        screen.keys(&["2", "Enter", "Enter"]);
        screen.wait(&[&format!("{GROUP} ({MANY}B")]);
    });
    assert!((1..=OVERVIEW_TRIPS_MAX).contains(&trips), "{trips}, {:?}", link.passed());
}

/// The commands of Pan for a group that it has not seen, in order.
#[test]
fn pan_fetches_the_headers_of_a_long_group() {
    let site = fed::long_site();
    let link = link(site.address());
    let mut client = Client::greeted(link.address());
    let trips = link.round_trips(|| {
        assert!(client.ask("MODE READER").starts_with("200 "));
        assert!(client.ask("CAPABILITIES").starts_with("101 "));
        client.block();
        assert_eq!(client.ask(&format!("GROUP {GROUP}")), format!("211 {MANY} 1 {MANY} {GROUP}"));
        // Pan requests parts of a thousand, newest first.
        assert!(client.ask(&format!("XOVER 1-{MANY}")).starts_with("224 "));
        assert_eq!(client.block().len(), MANY);
    });
    assert_eq!(trips, 4);
}

#[test]
fn nntplib_reads_the_overview_of_a_long_group() {
    let Some(python) = scripts::python() else { return };
    let site = fed::long_site();
    let link = link(site.address());
    let said = scripts::run(&[python, "-W", "ignore"], "overview.py", &[&link.port(), GROUP]);
    assert_eq!(said, format!("{MANY} rows, bytes and lines in each\n"));
    let trips = link.passed().round_trips;
    assert!((1..=OVERVIEW_TRIPS_MAX).contains(&trips), "{:?}", link.passed());
}

/// suck and fetchnews want whole articles: at most one round trip for each, and none for separate heads.
const FETCH_TRIPS_MAX: usize = MANY + 2 * OVERVIEW_TRIPS_MAX;

#[test]
fn suck_brings_a_long_group() {
    if !installed(&[("suck", "suck")]) {
        return;
    }
    let site = fed::long_site();
    let link = link(site.address());
    let host = format!("127.0.0.1:{}", link.port());
    assert_eq!(suck::sucked(&site, &host, &[], GROUP).len(), MANY);
    assert!(link.passed().round_trips <= FETCH_TRIPS_MAX, "{:?}", link.passed());
}

#[test]
fn fetchnews_brings_a_long_group() {
    if !leafnode::runs() {
        return;
    }
    let site = fed::long_secured_site();
    let tunnel = Tunnel::to(&site);
    let link = link(tunnel.address);
    let (said, _) = leafnode::fetch(&site, &link.port(), GROUP);
    assert!(said.contains(&format!("{GROUP}: {MANY} articles fetched, 0 killed")), "{said}");
    assert!(link.passed().round_trips <= FETCH_TRIPS_MAX, "{:?}", link.passed());
}
