//! A smoke run of the fuzz targets (`fuzz/README.md`) without a fuzzer: each gets inputs of its kind, as they
//! are and altered at random, by the same seeds on every machine. It shows that every target compiles, and
//! that the properties hold on inputs near to valid ones. What needs guidance by coverage takes `make fuzz`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

extern crate self as libfuzzer_sys;

#[allow(dead_code)]
#[path = "../../src/rng.rs"]
mod rng;
mod seeds;

use rng::Rng;

/// Altered inputs for each target.
const INPUTS: u64 = 3_000;
/// The same where each takes long.
const FEW: u64 = 300;
/// The same for whole sessions with a server.
const SESSIONS: u64 = 150;
/// Octets that mean something in one input or another.
const SPECIAL: &[u8] = b"\r\n\t .:<>@!*,\0\xff=;";
/// No input is longer.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// What a target takes; `None`: the octets are no such input.
pub trait Input<'a>: Sized {
    fn of(octets: &'a [u8]) -> Option<Self>;
}

impl<'a> Input<'a> for &'a [u8] {
    fn of(octets: &'a [u8]) -> Option<Self> {
        Some(octets)
    }
}

impl<'a> Input<'a> for &'a str {
    fn of(octets: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(octets).ok()
    }
}

/// The first octet says where the second part begins, in 256ths.
impl<'a> Input<'a> for (&'a [u8], &'a [u8]) {
    fn of(octets: &'a [u8]) -> Option<Self> {
        let (at, rest) = octets.split_first()?;
        rest.split_at_checked(rest.len() * usize::from(*at) / 256)
    }
}

#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/access_log.rs"]
mod access_log;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/article.rs"]
mod article;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/article_page.rs"]
mod article_page;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/aside.rs"]
mod aside;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/batch.rs"]
mod batch;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/cache_files.rs"]
mod cache_files;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/certificate_names.rs"]
mod certificate_names;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/command.rs"]
mod command;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/compress_stream.rs"]
mod compress_stream;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/configuration.rs"]
mod configuration;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/control_request.rs"]
mod control_request;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/date.rs"]
mod date;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/group_tree.rs"]
mod group_tree;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/injection.rs"]
mod injection;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/inn_files.rs"]
mod inn_files;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/inn_settings.rs"]
mod inn_settings;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/ldap.rs"]
mod ldap;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/log_message.rs"]
mod log_message;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/mbox.rs"]
mod mbox;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/message_id_newsgroups_path.rs"]
mod message_id_newsgroups_path;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/mime.rs"]
mod mime;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/notice.rs"]
mod notice;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/overview_row.rs"]
mod overview_row;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/post_file.rs"]
mod post_file;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/proxy_header.rs"]
mod proxy_header;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/reply.rs"]
mod reply;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/sasl.rs"]
mod sasl;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/search_query.rs"]
mod search_query;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/session.rs"]
mod session;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/signed_article.rs"]
mod signed_article;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/snapshot.rs"]
mod snapshot;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/threads.rs"]
mod threads;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/tree_file.rs"]
mod tree_file;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/upstream.rs"]
mod upstream;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/users_file.rs"]
mod users_file;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/web_form.rs"]
mod web_form;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/wildmat.rs"]
mod wildmat;
#[allow(unused_attributes)]
#[path = "../../../../fuzz/fuzz_targets/wire.rs"]
mod wire;

/// One test for each target.
macro_rules! smoke {
    ($($target:ident: $inputs:expr, $seeds:expr;)+) => {
        /// Every target that there is.
        const TARGETS: &[&str] = &[$(stringify!($target)),+];

        mod smoke {
            use super::*;

            $(
                #[test]
                fn $target() {
                    assert_holds($target::run, $inputs, $seeds);
                }
            )+
        }
    };
}

smoke! {
    access_log: INPUTS, seeds::access_logs();
    article: INPUTS, seeds::articles();
    article_page: INPUTS, seeds::pages();
    aside: INPUTS, seeds::asides();
    batch: INPUTS, seeds::batches();
    cache_files: INPUTS, seeds::articles();
    certificate_names: INPUTS, seeds::certificates();
    command: INPUTS, seeds::commands();
    compress_stream: FEW, seeds::streams();
    configuration: FEW, seeds::configurations();
    control_request: INPUTS, seeds::requests();
    date: INPUTS, seeds::dates();
    group_tree: INPUTS, seeds::groups();
    injection: INPUTS, seeds::articles();
    inn_files: FEW, seeds::articles();
    inn_settings: FEW, seeds::settings();
    ldap: INPUTS, seeds::directories();
    log_message: INPUTS, seeds::log_messages();
    mbox: INPUTS, seeds::mboxes();
    message_id_newsgroups_path: INPUTS, seeds::values();
    mime: INPUTS, seeds::pages();
    notice: INPUTS, seeds::notices();
    overview_row: INPUTS, seeds::values();
    post_file: INPUTS, seeds::posts();
    proxy_header: INPUTS, seeds::proxies();
    reply: INPUTS, seeds::replies();
    sasl: INPUTS, seeds::sasl();
    search_query: INPUTS, seeds::searches();
    session: SESSIONS, seeds::sessions();
    signed_article: INPUTS, seeds::signed();
    snapshot: INPUTS, seeds::snapshots();
    threads: INPUTS, seeds::rows();
    tree_file: INPUTS, seeds::articles();
    upstream: INPUTS, seeds::upstreams();
    users_file: INPUTS, seeds::users();
    web_form: INPUTS, seeds::forms();
    wildmat: INPUTS, seeds::wildmats();
    wire: INPUTS, seeds::articles();
}

#[test]
fn every_target_has_a_smoke_run() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    names.sort();
    assert_eq!(names, TARGETS);
}

/// In place of libFuzzer's: a function instead of a program.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: $Type:ty| $body:block) => {
        fn target($input: $Type) $body

        pub fn run(octets: &[u8]) {
            if let Some(input) = $crate::Input::of(octets) {
                target(input);
            }
        }
    };
}

/// Runs a target on the seeds as they are, then on altered ones; a panic shows the input.
fn assert_holds(run: fn(&[u8]), inputs: u64, seeds: Vec<Vec<u8>>) {
    let mut rng = Rng::new(0x5eed, inputs);
    let altered = std::iter::repeat_with(|| altered(&seeds, &mut rng)).take(inputs as usize);
    for input in seeds.clone().into_iter().chain(altered) {
        if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
            eprintln!("the input was {:?}", input.escape_ascii().to_string());
            std::panic::resume_unwind(panic);
        }
    }
}

/// Copies, removes, inserts and flips at a few places, or joins two inputs.
fn altered(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let any = |rng: &mut Rng| seeds[rng.below(seeds.len() as u64) as usize].clone();
    let mut input = any(rng);
    for _ in 0..rng.between(1, 6) {
        let at = rng.below(input.len() as u64 + 1) as usize;
        let end = (at + rng.below(16) as usize).min(input.len());
        match rng.below(6) {
            0 => drop(input.drain(at..end)),
            1 => drop(input.splice(at..at, input[at..end].to_vec())),
            2 => input.insert(at, SPECIAL[rng.below(SPECIAL.len() as u64) as usize]),
            3 => input.truncate(at),
            4 => drop(input.splice(at.., any(rng))),
            _ => {
                if let Some(octet) = input.get_mut(at) {
                    *octet ^= 1 << rng.below(8);
                }
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}
