//! Shares, and what things cost.

use std::net::IpAddr;

use super::*;
use crate::testing::{A, B};

const C: ClientId = ClientId(3);

fn host(n: u8) -> Host {
    IpAddr::from([10, 0, 0, n]).into()
}

/// Both sides of the share of a client, of a host, and of everything.
#[test]
fn shares() {
    let mut budget = Budget::new(1000);
    for (client, of) in [(A, 1), (B, 1), (C, 1), (ClientId(4), 2), (ClientId(5), 2)] {
        budget.admit(client, host(of));
    }
    let need = |b: &Budget, client, bytes| b.has_room(client, bytes, Want::Need);
    assert!(need(&budget, A, 250) && !need(&budget, A, 251));
    assert_eq!(budget.tightest(A), Full::Client);
    for (client, bytes) in [(A, 250), (B, 249)] {
        budget.take(client, bytes);
    }
    assert!(need(&budget, C, 1) && !need(&budget, C, 2), "its host has 499 of 500");
    assert_eq!(budget.tightest(C), Full::Others);
    assert_eq!((budget.left(C, Want::Need), budget.left_for_new(host(1))), (1, 1));
    assert_eq!(budget.left_for_new(host(2)), 250, "half of 501");
    budget.take(ClientId(4), 200);
    assert!(need(&budget, ClientId(5), 50) && !need(&budget, ClientId(5), 51));
    budget.take(ClientId(5), 50);
    assert_eq!(budget.left_for_new(host(3)), 125, "half of 251");
    assert!(!need(&budget, C, 1) && budget.is_nearly_full_for(C), "it has more than is left");
    budget.check();
    budget.give_back(A, 250);
    assert!(need(&budget, C, 126) && !need(&budget, C, 127), "375 are half of what is left");
    assert_eq!((budget.of_client(A), budget.memory().used), (0, 499));
    for client in [A, B, C, ClientId(4), ClientId(5)] {
        budget.forget(client);
    }
    assert!(budget.used == 0 && budget.clients.is_empty() && budget.hosts.is_empty());
}

/// What clients can do without ends at three quarters of each share, where courtesy ends too; what
/// few need ends at half, and from seven eighths on room is made.
#[test]
fn extras_leave_room_for_needs() {
    let mut budget = Budget::new(1000);
    budget.admit(A, host(1));
    let extra = |b: &Budget, client, bytes| b.has_room(client, bytes, Want::Extra);
    assert!(extra(&budget, A, 188) && !extra(&budget, A, 189));
    budget.admit(B, host(1));
    budget.take(A, 250);
    budget.take(B, 124);
    assert!(extra(&budget, B, 1) && !extra(&budget, B, 2));
    assert_eq!((budget.left(B, Want::Extra), budget.left(B, Want::Comfort)), (1, 0));
    assert!(!budget.is_crowded_for(B));
    budget.take(B, 1);
    assert!(budget.is_crowded_for(B) && !budget.is_crowded_for(C), "its host is");
    budget.take(B, 62);
    assert!(!budget.is_nearly_full_for(B), "437 of 500");
    budget.take(B, 1);
    assert!(budget.is_nearly_full_for(B) && !budget.is_nearly_full_for(C), "its host is");
    budget.give_back(A, 250);
    budget.give_back(B, 100);
    assert_eq!(budget.left(B, Want::Comfort), 37);
}

/// A client whose host is told late counts there with all it has.
#[test]
fn hosts_may_be_told_late() {
    let mut budget = Budget::new(1000);
    budget.take(A, 100);
    assert_eq!(budget.left(A, Want::Need), 150);
    budget.admit(A, host(1));
    budget.admit(A, host(2));
    budget.check();
    assert_eq!(budget.left_for_new(host(1)), 250);
    budget.admit(B, host(1));
    budget.take(B, 250);
    assert_eq!(budget.left_for_new(host(1)), 150);
    assert_eq!(budget.of_host(Some(host(2))), 0);
}

/// What maps take, against nodes as the standard library has them.
#[test]
fn costs() {
    assert_eq!([0, 1, 24, 25, 1024].map(allocated), [0, 32, 32, 48, 1040]);
    assert_eq!(name_bytes(24), 64);
    // 11 entries of 16 bytes: leaves of 208 bytes, 304 with edges; 5 entries each.
    assert_eq!(map_entry::<u64, u64>(), (5 * 208 + 304) / 30 + 1);
    assert_eq!(map_of_one::<u64, ()>(), 112);
}
