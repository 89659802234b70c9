//! What is known of the name that a copy goes to.

/// How a name came about that a copy goes to, here or at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// Somebody wrote it: a link that has it is followed.
    #[default]
    Given,
    /// It was listed in a tree that is copied: a link that has it is replaced. Who lists the names
    /// cannot have anything written outside of the copy.
    Listed,
    /// The same in a directory that was made for the copy: nothing has it, and nobody looks.
    New,
}
