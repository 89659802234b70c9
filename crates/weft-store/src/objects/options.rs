//! How many objects a store keeps open, and how much room free.

use rustix::process::{Resource, getrlimit};

use super::page_cache::CachePolicy;

/// Objects kept open when nothing else is configured; halved further by a tight descriptor
/// limit, because sockets need descriptors too.
const OPEN_OBJECTS_MAX: usize = 4096;

/// Even under a tiny descriptor limit this many objects stay open, or every call would reopen.
const OPEN_OBJECTS_MIN: usize = 16;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct ObjectStoreOptions {
    /// Objects kept open; more are open only while more are in use at the same moment.
    pub open_objects_max: usize,
    /// Most bytes of its disk that data leaves free; a small disk's share is smaller. 0: none.
    pub reserve_bytes: u64,
    /// What is kept in the page cache.
    pub cache: CachePolicy,
}

impl Default for ObjectStoreOptions {
    fn default() -> Self {
        ObjectStoreOptions::one_of(1)
    }
}

impl ObjectStoreOptions {
    /// For one of `stores` stores of a process: together they keep half of the descriptors that it
    /// may have open now.
    pub fn one_of(stores: usize) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
        let mine = half / stores.max(1);
        let open_objects_max = mine.clamp(OPEN_OBJECTS_MIN, OPEN_OBJECTS_MAX);
        ObjectStoreOptions { open_objects_max, reserve_bytes: 0, cache: CachePolicy::Keep }
    }
}
