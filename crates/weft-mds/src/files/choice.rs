//! Which data servers a new file gets: pure, without I/O or memory.
//!
//! Those that are up and have room, in shares that follow the room they have, in sets that may
//! overlap. A set is drawn by systematic sampling: the data servers lie one after another on a
//! ring, each as long as its share, and the set is where points at equal distances fall. So each
//! is drawn exactly as often as its share says, and there are never more different sets than data
//! servers.

use weft_store::types::DataServerId;

use crate::data_servers::{Candidate, Standing};

/// The heaviest weight: a data server has this share when it has as much room as the roomiest, and
/// half of it for every time its room is half as much. Few steps, so that the sets change seldom.
const WEIGHT_MAX: u64 = 64;

/// Where a file goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// Its data servers, in the order of the candidates.
    pub(super) members: Vec<DataServerId>,
    /// Which of them has its first stripe unit.
    pub(super) first_index: usize,
}

/// A data server and its share of new files, in parts of the sum of all.
type Weighted = (DataServerId, u64);

/// Chooses up to `width` data servers: of those that are up and have room; if there are none, of
/// those that are up. If those with room are fewer than `least`, the roomiest of those whose room
/// is scarce are added. Over many turns each serves in proportion to its weight, as a member and as
/// the first; with equal weights exactly so, and as the first in every so many turns as there are
/// data servers. `None` while none is up.
pub(super) fn choose(
    candidates: &[Candidate],
    (width, least): (u16, u16),
    turn: u64,
) -> Option<Choice> {
    let usable = usable(candidates, least);
    if usable.is_empty() {
        return None;
    }
    let weighted = weights(&usable);
    let width = u64::from(width).clamp(1, weighted.len() as u64);
    let (first, members) = draw(&weighted, width, turn)?;
    let first_index = members.iter().position(|m| *m == first).unwrap_or(0);
    Some(Choice { members, first_index })
}

/// The data servers that a file may be spread over.
fn usable(candidates: &[Candidate], least: u16) -> Vec<&Candidate> {
    let of = |standing| candidates.iter().filter(move |c| c.standing == standing);
    let missing = usize::from(least).saturating_sub(of(Standing::Ready).count());
    let mut scarce: Vec<_> = of(Standing::Scarce).collect();
    scarce.sort_by_key(|c| std::cmp::Reverse(c.available));
    let mut usable: Vec<_> = of(Standing::Ready).chain(scarce.into_iter().take(missing)).collect();
    if usable.is_empty() {
        usable = of(Standing::Full).collect();
    }
    usable.sort_by_key(|c| c.id);
    usable
}

/// The room of each as a power of two, relative to the roomiest, in lowest terms. What is not
/// known counts as much.
fn weights(usable: &[&Candidate]) -> Vec<Weighted> {
    let most = usable.iter().filter_map(|c| c.available).max().unwrap_or(0).max(1);
    let weight = |c: &&Candidate| {
        let room = u128::from(c.available.unwrap_or(most).max(1));
        // The binary logarithm of `most / room`, rounded: 181/128 is the square root of two.
        let halvings = (u128::from(most) * 181 / 128 / room).max(1).ilog2();
        (c.id, WEIGHT_MAX.checked_shr(halvings).unwrap_or(0).max(1))
    };
    let all: Vec<_> = usable.iter().map(weight).collect();
    let least = all.iter().map(|(_, w)| *w).min().unwrap_or(1);
    all.into_iter().map(|(id, w)| (id, w / least)).collect()
}

/// The first of a turn, and the set.
fn draw(weighted: &[Weighted], width: u64, turn: u64) -> Option<(DataServerId, Vec<DataServerId>)> {
    let certain = certain(weighted, width);
    let places = width - certain.iter().filter(|c| **c).count() as u64;
    let total: u64 = weighted.iter().map(|(_, w)| *w).sum();
    let ring: u64 = weighted.iter().zip(&certain).filter(|(_, c)| !**c).map(|((_, w), _)| *w).sum();
    let (nth, round) = (turn % total, turn / total);
    let (first, on_ring) = first(weighted, &certain, spread(nth, total))?;
    let at = on_ring.unwrap_or_else(|| spread(nth % ring.max(1), ring.max(1)));
    // On the ring each is `places` times as long as its weight, and a point falls every `ring`: so
    // on each at most one, and one of them on the first.
    let from = (at * places + round % places.max(1)) % ring.max(1);
    let points_before = |x: u64| (x + ring - 1 - from) / ring;
    let (mut at, mut members) = (0, Vec::new());
    for ((id, weight), certain) in weighted.iter().zip(&certain) {
        if *certain {
            members.push(*id);
            continue;
        }
        let end = at + weight * places;
        if points_before(end) > points_before(at) {
            members.push(*id);
        }
        at = end;
    }
    Some((first, members))
}

/// Whose weight a number below the sum of all weights falls on; and if that is not a certain one,
/// where it falls among the weights of those.
fn first(
    weighted: &[Weighted],
    certain: &[bool],
    mut nth: u64,
) -> Option<(DataServerId, Option<u64>)> {
    let mut on_ring = 0;
    for ((id, weight), certain) in weighted.iter().zip(certain) {
        if nth < *weight {
            return Some((*id, (!*certain).then_some(on_ring + nth)));
        }
        nth -= weight;
        on_ring += if *certain { 0 } else { *weight };
    }
    None
}

/// Those that weigh so much that every file gets them.
fn certain(weighted: &[Weighted], width: u64) -> Vec<bool> {
    let mut certain = vec![false; weighted.len()];
    loop {
        let places = width - certain.iter().filter(|c| **c).count() as u64;
        let rest = || weighted.iter().zip(&certain).filter(|(_, certain)| !**certain);
        let ring: u64 = rest().map(|((_, w), _)| *w).sum();
        let next: Vec<_> = weighted
            .iter()
            .zip(&certain)
            .map(|((_, w), certain)| *certain || places > 0 && w * places >= ring)
            .collect();
        if next == certain {
            return certain;
        }
        certain = next;
    }
}

/// A permutation of the numbers below `count` that leads neighbours far apart.
fn spread(nth: u64, count: u64) -> u64 {
    let golden = count * 5 / 8;
    let step = (golden.max(1)..=count).find(|step| gcd(*step, count) == 1).unwrap_or(1);
    nth * step % count
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[path = "choice/tests.rs"]
mod tests;
