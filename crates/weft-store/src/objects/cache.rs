//! The open objects, bounded: second chance (an approximation of least recently used).
//!
//! There is never more than one [`Object`] of an id: its epoch lock orders writes and fences, so an
//! object that anyone still holds is not evicted.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use super::{object::Object, object_id::ObjectId};
use crate::sync::lock;

/// Entries looked at for one eviction; if all are busy or fresh the cache grows by one for now.
const SCAN_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Cache {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    object_by_id: HashMap<ObjectId, Arc<Object>>,
    /// Every id of the map once, except those being evicted right now; next candidate in front.
    queue: VecDeque<ObjectId>,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Cache { limit: limit.max(1), open: Mutex::default() }
    }

    /// The object, made with the epoch that `epoch` tells if it was not open.
    pub(super) fn get(&self, id: ObjectId, epoch: impl FnOnce() -> u32) -> Arc<Object> {
        let mut open = lock(&self.open);
        if let Some(object) = open.object_by_id.get(&id) {
            object.touch();
            return object.clone();
        }
        let object = Arc::new(Object::new(id, epoch()));
        open.object_by_id.insert(id, object.clone());
        open.queue.push_back(id);
        object
    }

    /// The object, if it is open.
    pub(super) fn find(&self, id: ObjectId) -> Option<Arc<Object>> {
        let open = lock(&self.open);
        let object = open.object_by_id.get(&id)?;
        object.touch();
        Some(object.clone())
    }

    /// An idle object to evict, if there are too many: a clean one rather than a dirty one.
    /// The caller syncs it and gives it to [`Self::retire`].
    pub(super) fn victim(&self) -> Option<Arc<Object>> {
        let mut open = lock(&self.open);
        if open.object_by_id.len() <= self.limit {
            return None;
        }
        let mut dirty = None;
        for _ in 0..SCAN_MAX.min(open.queue.len()) {
            let id = open.queue.pop_front()?;
            let Some(object) = open.object_by_id.get(&id).cloned() else {
                continue;
            };
            // The map's and ours: nobody else holds it, nor can, while we have the lock.
            let idle = Arc::strong_count(&object) == 2 && !object.was_touched();
            if idle && !object.is_dirty() {
                if let Some(id) = dirty {
                    open.queue.push_front(id);
                }
                return Some(object);
            }
            if idle && dirty.is_none() {
                dirty = Some(id);
            } else {
                open.queue.push_back(id);
            }
        }
        open.object_by_id.get(&dirty?).cloned()
    }

    /// Ends an eviction: the object goes, unless it was taken or written again meanwhile. It is
    /// the caller's then, whose file is still to be closed.
    pub(super) fn retire(&self, victim: Arc<Object>) -> Option<Object> {
        let mut open = lock(&self.open);
        if Arc::strong_count(&victim) == 2 && !victim.is_dirty() {
            open.object_by_id.remove(&victim.id());
            Arc::into_inner(victim)
        } else {
            open.queue.push_back(victim.id());
            None
        }
    }

    /// Number of open objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.open).object_by_id.len()
    }
}
