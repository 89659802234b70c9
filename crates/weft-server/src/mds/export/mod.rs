//! Who may do what.

pub(in crate::mds) mod acl;
pub(in crate::mds) mod names;
mod rules;

pub use names::Naming;
pub use rules::{Access, ClientRule, Export, View};
