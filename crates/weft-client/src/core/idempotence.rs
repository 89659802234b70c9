//! Which operations may run twice.
//!
//! Within a session the reply cache makes every request run once. When a session is lost with a
//! request under way, only requests made of repeatable operations are sent again by themselves.

use weft_nfs::{
    OpArgs, OpNum,
    ops::{CreateHow, SetxattrOption},
};

/// The first operation of a request that must not be executed a second time.
pub fn first_unrepeatable(ops: &[OpArgs]) -> Option<OpNum> {
    ops.iter().find(|op| !is_repeatable(op)).map(OpArgs::op)
}

fn is_repeatable(op: &OpArgs) -> bool {
    match op {
        // What insists on a key being there, or not, fails the second time.
        OpArgs::Setxattr(set) => set.option == SetxattrOption::EITHER,
        // A second plain OPEN by the same owner only upgrades the first.
        OpArgs::Open(open) => matches!(open.openhow, None | Some(CreateHow::Unchecked(_))),
        OpArgs::Close(_)
        | OpArgs::Create(_)
        | OpArgs::Link(_)
        | OpArgs::Remove(_)
        | OpArgs::Rename(_)
        | OpArgs::Removexattr(_)
        | OpArgs::Lock(_)
        | OpArgs::Locku(_)
        | OpArgs::OpenDowngrade(_)
        | OpArgs::Delegreturn(_)
        | OpArgs::FreeStateid(_)
        | OpArgs::DestroySession(_)
        | OpArgs::DestroyClientid(_)
        | OpArgs::CreateSession(_)
        | OpArgs::Unread(_) => false,
        _ => true,
    }
}
