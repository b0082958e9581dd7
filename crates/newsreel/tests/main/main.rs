//! Tests of the server from the outside, over its sockets.
//!
//! `running` starts a server on a free port with its own spool; `client` speaks NNTP to it octet by octet.
//! The transcripts can also be played to any other server: see `transcripts`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod answers;
mod archiving;
mod auth;
mod away;
mod bad_input;
mod book;
mod buffers;
mod cancel_lock;
mod checking;
mod client;
mod clients;
mod compress;
mod damaged;
mod examples;
mod expiring;
mod fail2ban;
mod fairness;
mod feeding;
mod feeds;
mod filtering;
mod group_control;
mod group_syncing;
mod guessing;
mod hidden;
mod hiding;
mod history;
mod importing;
mod layers;
mod leafnode_home;
mod link;
mod lists;
mod logins;
mod mails;
mod making;
mod many;
mod memory;
mod moderation;
mod modes;
mod mounting;
mod moving_in;
mod nntp_client;
mod nocem;

mod operated;
mod operator;
mod overview_headers;
mod packaging;
mod pausing;
mod posting;
mod proxied;
mod pulling;
mod purging;
mod quiet;
mod random_sessions;
mod reload;
mod reports;
mod resting;
mod reviewing;
mod rnews;
mod running;
mod scram;
mod searching;
mod sending;
mod signed_control;
mod sources;
mod starting;
mod stopping;
mod terminals;
mod test_site;
mod tls;
mod transcripts;
mod trouble;
#[path = "../../../spool/tests/unpack.rs"]
mod unpack;
mod upgrading;
mod upstreams;
mod waiting;
mod web;
#[path = "../../../migrate/src/mails/zipped.rs"]
mod zipped;
