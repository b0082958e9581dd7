//! Operations that are commands: a table with one row for each, and how their answers are shown.
//!
//! The options and help of a command are those of its operation, in `operators`. A command whose answer is
//! more than lines of text has its own [`TypedOperation::carry_out`], next to the code that shows the answer.

use super::locate::SiteLocation;
use super::reach;
use super::screen::{CliError, unreadable};
use clap::Subcommand;
use operators::archive::operation::ArchiveOperation;
use operators::buffers::BufferOperation;
use operators::care::VerifyOperation;
use operators::expire::ExpireOperation;
use operators::explain::ExplainOperation;
use operators::feed::BatchOperation;
use operators::filter::FilterOperation;
use operators::hide::{HideOperation, UnhideOperation};
use operators::keys::KeysOperation;
use operators::moderation::ModerationOperation;
use operators::request::Request;
use operators::snapshot::SnapshotOperation;
use operators::status::StatusOperation;
use operators::why::WhyOperation;
use operators::withdraw::{CancelOperation, PurgeOperation};

/// An operation that is typed as a command.
pub(super) trait TypedOperation: Into<Request> {
    /// Carries out the operation and shows its answer.
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        reach::print(&at.load()?, self)
    }
}

macro_rules! commands {
    ($($Name:ident($Operation:ty),)+) => {
        /// A command that is an operation.
        #[derive(Debug, Subcommand)]
        pub(super) enum OperationCommand {
            $($Name($Operation),)+
        }

        impl OperationCommand {
            /// Carries out the operation and shows its answer.
            pub(super) fn run(self, at: &SiteLocation) -> Result<(), CliError> {
                match self {
                    $(Self::$Name(operation) => operation.carry_out(at),)+
                }
            }
        }
    };
}

commands! {
    Buffer(BufferOperation),
    Status(StatusOperation),
    Explain(ExplainOperation),
    Why(WhyOperation),
    Batch(BatchOperation),
    Verify(VerifyOperation),
    Snapshot(SnapshotOperation),
    Expire(ExpireOperation),
    Archive(ArchiveOperation),
    Moderation(ModerationOperation),
    Keys(KeysOperation),
    Filter(FilterOperation),
    Cancel(CancelOperation),
    Hide(HideOperation),
    Unhide(UnhideOperation),
    Purge(PurgeOperation),
}

impl TypedOperation for WhyOperation {}
impl TypedOperation for BatchOperation {}
impl TypedOperation for CancelOperation {}
impl TypedOperation for UnhideOperation {}

impl TypedOperation for SnapshotOperation {
    fn carry_out(self, at: &SiteLocation) -> Result<(), CliError> {
        // The server has another working directory.
        let file = std::path::absolute(&self.file).map_err(unreadable(&self.file))?;
        reach::print(&at.load()?, Self { file: file.clone() })?;
        match file.exists() {
            true => Ok(()),
            false => Err(CliError::Problem(format!(
                "the server has written {} where this command does not see it, since it has a /tmp of its own or \
                 runs in a container; name a file that both see",
                file.display()
            ))),
        }
    }
}
