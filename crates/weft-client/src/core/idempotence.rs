//! Which operations may run twice.
//!
//! Within a session the reply cache makes every request run once. When a session is lost with a
//! request under way, only requests made of repeatable operations are sent again by themselves.

use weft_nfs::{
    OpArgs, OpNum, Repeatable,
    ops::{CreateHow, SetxattrOption},
};

/// The first operation of a request that must not be executed a second time.
pub fn first_unrepeatable(ops: &[OpArgs]) -> Option<OpNum> {
    ops.iter().find(|op| !is_repeatable(op)).map(OpArgs::op)
}

fn is_repeatable(op: &OpArgs) -> bool {
    match (op.repeatable(), op) {
        (Repeatable::Always, _) => true,
        // What insists on a key being there, or not, fails the second time.
        (Repeatable::ByArguments, OpArgs::Setxattr(set)) => set.option == SetxattrOption::EITHER,
        // A second plain OPEN by the same owner only upgrades the first, and an exclusive one with
        // the same verifier opens the file that the first has made.
        (Repeatable::ByArguments, OpArgs::Open(open)) => {
            !matches!(open.openhow, Some(CreateHow::Guarded(_)))
        }
        (Repeatable::ByArguments | Repeatable::Never, _) => false,
    }
}
