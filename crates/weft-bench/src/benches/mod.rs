//! The benchmarks, one a file; each has a function `bench` that returns its figures.

pub(crate) mod atlas;
pub(crate) mod client;
pub(crate) mod create;
pub(crate) mod fileop;
pub(crate) mod listing;
pub(crate) mod local;
pub(crate) mod loopback;
pub(crate) mod many;
pub(crate) mod mdtest;
pub(crate) mod medium;
pub(crate) mod neighbour;
pub(crate) mod postmark;
pub(crate) mod python;
pub(crate) mod receive;
pub(crate) mod small;
pub(crate) mod small_writes;
pub(crate) mod stream;
pub(crate) mod syncs;
pub(crate) mod threshold;
