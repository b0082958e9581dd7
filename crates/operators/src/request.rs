//! Requests of operators: a table with one row for each operation.
//!
//! [`Request`] is the message on the control socket: a line of JSON, whose member `do` names the row. What a
//! request does is in the file of its operation; a new operation is such a file and a row here.

use crate::accounts::AccountsCommand;
use crate::buffers::BufferCommand;
use crate::filter::FilterCommand;
use crate::keys::KeysCommand;
use crate::moderation::ModerationCommand;
use crate::operation::Operation;
use crate::posts::PostsCommand;
use crate::search;
use crate::{
    accounts, archive, buffers, cached, care, control_socket, drain, expire, explain, export, feed, filter,
    groups, hide, history, keys, moderation, name_map, pause, posting, posts, pull, reload, shared_config,
    snapshot, status, transmit, users, why, withdraw,
};
use serde::{Deserialize, Serialize};

/// Declares [`Request`] and what each request does.
macro_rules! requests {
    ($($(#[$when:meta])* $Name:ident($Operation:ty),)+) => {
        /// A request, in JSON an object such as `{"do": "group_list", "wildmat": "comp.*"}`.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "do", rename_all = "snake_case")]
        pub enum Request {
            $(
                $(#[$when])*
                #[doc = concat!("Carries out a [`", stringify!($Operation), "`].")]
                $Name($Operation),
            )+
        }

        impl Request {
            /// Returns the operation that is requested.
            pub fn operation(&self) -> &dyn Operation {
                match self {
                    $($(#[$when])* Self::$Name(operation) => operation,)+
                }
            }
        }

        $(
            $(#[$when])*
            impl From<$Operation> for Request {
                fn from(operation: $Operation) -> Self {
                    Self::$Name(operation)
                }
            }
        )+
    };
}

requests! {
    Ping(status::PingOperation),
    GroupAdd(groups::GroupAddOperation),
    GroupRemove(groups::GroupRemoveOperation),
    GroupSet(groups::GroupSetOperation),
    GroupUpdate(groups::GroupUpdateOperation),
    GroupList(groups::GroupListOperation),
    NameMap(name_map::NameMapOperation),
    Articles(export::ArticlesOperation),
    Reload(reload::ReloadOperation),
    Pause(pause::PauseOperation),
    Go(pause::GoOperation),
    Drain(drain::DrainOperation),
    Compare(reload::CompareOperation),
    ClusterConfig(shared_config::ClusterConfigOperation),
    Rnews(control_socket::rnews::RnewsOperation),
    Import(control_socket::import::ImportOperation),
    Post(posting::PostOperation),
    Pull(pull::operation::PullOperation),
    Send(transmit::progress::SendOperation),
    Mount(control_socket::mount::MountOperation),
    MountStanding(control_socket::mount::MountStandingOperation),
    Search(search::SearchOperation),
    RebuildSearch(search::RebuildSearchOperation),
    CountLiving(control_socket::import::CountLivingOperation),
    AreKnown(control_socket::import::AreKnownOperation),
    HistoryImport(history::HistoryImportOperation),
    HistoryExport(history::HistoryExportOperation),
    RaiseHigh(groups::RaiseHighOperation),
    Buffer(buffers::BufferOperation),
    Status(status::StatusOperation),
    Explain(explain::ExplainOperation),
    Why(why::WhyOperation),
    Batch(feed::BatchOperation),
    Feed(feed::FeedOperation),
    Verify(care::VerifyOperation),
    Snapshot(snapshot::SnapshotOperation),
    Expire(expire::ExpireOperation),
    Archive(archive::operation::ArchiveOperation),
    VerifyCache(cached::VerifyCacheOperation),
    PurgeCache(cached::PurgeCacheOperation),
    RefreshCache(cached::RefreshCacheOperation),
    Posts(posts::PostsOperation),
    Moderation(moderation::ModerationOperation),
    Keys(keys::KeysOperation),
    Accounts(accounts::AccountsOperation),
    Users(users::UsersOperation),
    Filter(filter::FilterOperation),
    Cancel(withdraw::CancelOperation),
    Hide(hide::HideOperation),
    Unhide(hide::UnhideOperation),
    Purge(withdraw::PurgeOperation),
}

impl Request {
    /// Returns whether it is an action of an operator, for the audit log. Questions are none, nor is what
    /// programs hand over: articles, history, mounts.
    pub fn is_action(&self) -> bool {
        match self {
            Self::Ping(_) | Self::Status(_) | Self::Explain(_) | Self::Why(_) | Self::Search(_) => false,
            Self::GroupList(_) | Self::NameMap(_) | Self::Articles(_) | Self::Compare(_) => false,
            Self::Archive(_) | Self::HistoryExport(_) | Self::CountLiving(_) | Self::AreKnown(_) => false,
            Self::Rnews(_) | Self::Import(_) | Self::Post(_) | Self::HistoryImport(_) => false,
            Self::RaiseHigh(_) | Self::Mount(_) | Self::MountStanding(_) => false,
            Self::Buffer(buffers) => !matches!(buffers.command, BufferCommand::List { .. }),
            Self::Posts(posts) => {
                !matches!(posts.command, PostsCommand::List { .. } | PostsCommand::Show { .. })
            }
            Self::Moderation(held) => {
                !matches!(held.command, ModerationCommand::List { .. } | ModerationCommand::Show { .. })
            }
            Self::Accounts(accounts) => !matches!(accounts.command, AccountsCommand::List {}),
            Self::Keys(keys) => !matches!(keys.command, KeysCommand::List),
            Self::ClusterConfig(config) => config.apply.is_some(),
            Self::Filter(filter) => !matches!(filter.command, FilterCommand::Review { .. }),
            Self::Verify(verify) => verify.repair && !verify.dry_run,
            Self::Expire(expire) => !expire.dry_run && expire.explain.is_none() && expire.what_if.is_none(),
            Self::Cancel(cancel) => !cancel.dry_run,
            Self::Hide(hide) => !hide.dry_run && !hide.list,
            Self::Unhide(unhide) => !unhide.dry_run,
            Self::Purge(purge) => !purge.dry_run,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_their_form_on_the_control_socket() {
        for line in [
            r#"{"do":"ping"}"#,
            r#"{"do":"status"}"#,
            r#"{"do":"go"}"#,
            r#"{"do":"group_list","wildmat":null}"#,
            r#"{"do":"group_set","name":"a.b","flag":"m","description":null}"#,
            r#"{"do":"verify","repair":true,"dry_run":false}"#,
            r#"{"do":"buffer","command":{"list":{}}}"#,
            r#"{"do":"feed","peer":"x","command":"stop"}"#,
            r#"{"do":"hide","message_ids":[],"reason":null,"dry_run":false,"list":true,"by":{"issuer":null,"since":2}}"#,
            r#"{"do":"expire","dry_run":true,"explain":null,"what_if":null,"text":null,"days":null}"#,
            r#"{"do":"raise_high","marks":[["a.b",7]]}"#,
            r#"{"do":"history_export","form":"cnews"}"#,
        ] {
            let request: Request = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
        }
        for line in [r#"{"do":"group_list","wildmat":null,"more":1}"#, r#"{"do":"unknown"}"#, r#"{}"#] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn members_of_the_control_group_may_only_look() {
        let may =
            |line: &str| serde_json::from_str::<Request>(line).unwrap().operation().is_for_control_group();
        assert!(may(r#"{"do":"ping"}"#) && may(r#"{"do":"status"}"#));
        for line in [r#"{"do":"reload"}"#, r#"{"do":"go"}"#, r#"{"do":"explain","subject":"<a@b>"}"#] {
            assert!(!may(line), "{line}");
        }
    }
}
