//! Who may do what with the export, and how users and groups are called: from a caller to a
//! credential and back. It never knows files.

pub(crate) mod acl;
pub(crate) mod names;
mod rules;
mod summary;

pub(crate) use rules::{Asked, GroupsBy};

pub use names::Naming;
pub use rules::{Access, ClientRule, Delegated, Export, View};
