//! What all feeds share.

use super::articles::Articles;
use super::hub::Hub;
use crate::ingest::Filer;
use spool::Spool;
use std::sync::Arc;

/// What all feeds share.
pub(super) struct Shared {
    pub spool: Arc<Spool>,
    pub filer: Arc<Filer>,
    pub articles: Articles,
    pub hub: Arc<Hub>,
}
