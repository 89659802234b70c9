//! The objects that the arguments of a call name.

use weft_control::codec::{
    AllocateArgs, CopyArgs, CreateArgs, FenceArgs, ObjectName, Objects, PunchArgs, SeekArgs,
    TruncateArgs,
};

/// Arguments that name objects.
pub(super) trait NamesObjects {
    /// Whether this holds of all of them.
    fn all(&self, holds: &dyn Fn(ObjectName) -> bool) -> bool;
}

impl NamesObjects for Objects {
    fn all(&self, holds: &dyn Fn(ObjectName) -> bool) -> bool {
        self.0.iter().all(|object| holds(*object))
    }
}

macro_rules! names_objects {
    ($($list:ident)*; $($one:ident)*) => {
        $(impl NamesObjects for $list {
            fn all(&self, holds: &dyn Fn(ObjectName) -> bool) -> bool {
                self.0.iter().all(|item| holds(item.object))
            }
        })*
        $(impl NamesObjects for $one {
            fn all(&self, holds: &dyn Fn(ObjectName) -> bool) -> bool {
                holds(self.object)
            }
        })*
    };
}
names_objects! { TruncateArgs FenceArgs CreateArgs; SeekArgs PunchArgs AllocateArgs }

impl NamesObjects for CopyArgs {
    fn all(&self, holds: &dyn Fn(ObjectName) -> bool) -> bool {
        holds(self.source) && holds(self.destination)
    }
}
