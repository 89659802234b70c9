//! Answers that come late.

use bytes::Bytes;

use crate::cache::*;

type Cache = FileCache<u8, u8>;

const OLD: Bytes = Bytes::from_static(&[1; 8]);

fn written() -> Cache {
    let mut cache = Cache::new(64);
    cache.write(&1, 0, &[2; 8]).expect("it is in range");
    cache
}

fn send(cache: &mut Cache) -> SendingNo {
    cache.take_dirty(&Take::all(64, 9)).expect("it is dirty").no
}

/// All that is clean goes.
fn evict(cache: &mut Cache) {
    for queue in [Queue::Once, Queue::Again] {
        cache.evict(queue, Tick(u64::MAX), u64::MAX);
    }
}

fn answered(cache: &mut Cache, fetch: Fetch) -> Vec<Part<Bytes>> {
    cache.fetched(fetch, 0, &OLD);
    cache.end_fetch(fetch);
    cache.read(0, 8)
}

fn missing() -> Vec<Part<Bytes>> {
    vec![Part::Missing { offset: 0, len: 8 }]
}

/// Begun before a write, answered when that is durable and evicted.
#[test]
fn an_answer_from_before_a_write_is_not_kept() {
    let mut cache = Cache::new(64);
    let fetch = cache.begin_fetch(0, 8);
    cache.write(&1, 0, &[2; 8]).expect("it is in range");
    let no = send(&mut cache);
    cache.arrived(no, 0, 8, &Arrived::Durable);
    evict(&mut cache);
    assert_eq!(answered(&mut cache, fetch), missing());
    let fetch = cache.begin_fetch(0, 8);
    assert_ne!(answered(&mut cache, fetch), missing(), "a new one is kept");
}

/// Begun while a write was dirty, on its way, or at a server that lost it; answered when that is
/// durable and evicted.
#[test]
fn an_answer_from_before_a_write_arrived_is_not_kept() {
    let mut cache = written();
    let dirty = cache.begin_fetch(0, 8);
    let no = send(&mut cache);
    let sending = cache.begin_fetch(0, 8);
    cache.arrived(no, 0, 8, &Arrived::Unstable(1));
    let sent = cache.begin_fetch(0, 8);
    let round = cache.begin_round();
    cache.settle(round, |_| false);
    assert!(cache.lost_again(round));
    let no = send(&mut cache);
    cache.arrived(no, 0, 8, &Arrived::Durable);
    evict(&mut cache);
    for fetch in [dirty, sending, sent] {
        assert_eq!(answered(&mut cache, fetch), missing());
    }
}

/// Begun while bytes that were given up were on their way, answered when they have arrived.
#[test]
fn an_answer_from_before_given_up_bytes_arrived_is_not_kept() {
    let mut cache = written();
    let no = send(&mut cache);
    cache.forget(&1);
    let fetch = cache.begin_fetch(0, 8);
    cache.arrived(no, 0, 8, &Arrived::Durable);
    assert_eq!(answered(&mut cache, fetch), missing());
}

/// What another client overwrote while our COMMIT was awaited was clean afterwards, and read on.
#[test]
fn bytes_that_another_client_overwrote_do_not_become_clean() {
    let mut cache = written();
    let no = send(&mut cache);
    cache.arrived(no, 0, 8, &Arrived::Unstable(1));
    cache.invalidate();
    assert!(matches!(&cache.read(0, 8)[..], [Part::Here { .. }]), "our own are seen still");
    let round = cache.begin_round();
    cache.settle(round, |_| true);
    assert_eq!(cache.read(0, 8), missing());
    assert_eq!(cache.usage(), &Usage::default());
}

/// What arrives after a round has begun is not confirmed by it.
#[test]
fn a_round_confirms_what_was_there_before() {
    let mut cache = Cache::new(64);
    for at in [0, 10, 20] {
        cache.write(&1, at, &[2; 8]).expect("it is in range");
    }
    let no = send(&mut cache);
    cache.arrived(no, 0, 8, &Arrived::Unstable(1));
    cache.arrived(no, 10, 8, &Arrived::Unstable(2));
    let round = cache.begin_round();
    cache.arrived(no, 20, 8, &Arrived::Unstable(1));
    cache.settle(round, |mark| *mark == 1);
    assert_eq!(cache.sent().map(|s| s.offset).collect::<Vec<_>>(), [10, 20]);
    let lost = |from| cache.next_lost(round, from).map(|s| s.offset);
    assert_eq!([lost(0), lost(10), lost(11)], [Some(10), Some(10), None]);
    assert!(cache.lost_again(round) && !cache.lost_again(round));
    assert_eq!(cache.left(), Left::Ready);
}
