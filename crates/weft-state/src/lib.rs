//! Protocol state of an NFSv4.1/4.2 server as pure state machines: clients, sessions, slots and
//! the back channel ([`Sessions`]); opens, byte-range locks, delegations and layouts ([`State`]);
//! copies that go on after their reply ([`Offloads`]); the grace period ([`Grace`]). RFC 8881
//! §2.10, §8, §9, §10, §12.5; RFC 7862 §4.8.
//!
//! **Invariants of absence.** No clock, no random numbers, no I/O, no logging, no locks, no async:
//! the time and entropy are arguments, effects are return values, and every refusal carries its
//! reason. The same calls in the same order give the same answers. A refused call has changed no
//! state of the peer's.
//!
//! **Entry points.** A data server needs only [`Sessions`]. A metadata server wraps [`Sessions`],
//! [`State`], [`Offloads`] and [`Grace`] in a mutex each, and finishes each call before it awaits
//! anything.
//!
//! ```
//! use weft_state::{FileKey, IoAccess, State, StateLimits};
//! use weft_nfs::{ClientId, Opaque, StateOwner};
//!
//! let mut state = State::new(1, StateLimits::default());
//! let (client, file) = (ClientId(7), FileKey { volume: 1, object: 42 });
//! let owner = StateOwner { clientid: client, owner: Opaque(bytes::Bytes::from_static(b"me")) };
//! let open = state.open(client, &owner, file, 1, 0).unwrap();
//! assert!(state.check_io(client, &open, file, IoAccess::Read).is_ok());
//! assert!(state.check_io(client, &open, file, IoAccess::Write).is_err());
//! ```

mod backchannel;
mod channel;
mod client;
mod delegation;
mod grace;
mod host;
mod ids;
mod layout;
mod limits;
mod lock;
mod lock_ranges;
mod lock_waiters;
mod memory;
mod offload;
mod open;
mod refusal;
mod reliance;
mod sequence;
mod session;
mod sessions;
mod slot;
mod state;
mod stateid;
mod underway;

#[cfg(test)]
mod testing;

pub use backchannel::Callback;
pub use client::{Client, Origin, Principal};
pub use delegation::{
    Asking, DelegationKind, FileAsked, Granted, NoDelegation, RecallFor, SmallFile, Wanted,
};
pub use grace::{Ended, GRACE_PARTS, Grace, GraceLeft, KnownClient};
pub use host::Host;
pub use ids::{ConnId, FileKey, Millis};
pub use layout::{FILE_RECORD_BYTES, LayoutHolder, LayoutInfo, LayoutReturned, Overdue};
pub use limits::{SessionLimits, StateLimits};
pub use lock_waiters::LockNotice;
pub use memory::{MemoryUse, host_share};
pub use offload::{OffloadProgress, Offloads};
pub use open::{Closed, IoAccess, IoHolder};
pub use refusal::{Reason, Refusal};
pub use reliance::LetsGo;
pub use sequence::{Envelope, InSession, SequenceOutcome};
pub use sessions::{ConfirmedClient, CreateSessionOutcome, ExchangeIdOutcome, Identity, Sessions};
pub use state::{Dropped, HeldCounts, State};
pub use underway::Underway;
