//! The transition table of a back channel of one slot.

use weft_dev::{Machine, Outcome, assert_snapshot};
use weft_nfs::ops::RdmaIrd;

use super::*;

/// A back channel, and the callback under way on it.
struct Channel {
    back: BackChannel,
    under_way: Option<Callback>,
}

const CONN: ConnId = ConnId(1);

impl Channel {
    fn new() -> Channel {
        let attrs = ChannelAttrs {
            headerpadsize: 0,
            maxrequestsize: 4096,
            maxresponsesize: 4096,
            maxresponsesize_cached: 0,
            maxoperations: 2,
            maxrequests: 1,
            rdma_ird: RdmaIrd(None),
        };
        Channel { back: BackChannel::new(attrs, 7, None), under_way: None }
    }

    fn describe(&self) -> String {
        let state = match (self.back.is_up(), self.back.is_down(), self.back.conns.is_empty()) {
            (true, ..) => "up",
            (_, true, false) => "down, connection bound",
            (_, true, true) => "down",
            (false, false, _) => "not asked for",
        };
        let slot = self.back.slots[0];
        let also = [
            (!self.back.is_usable(), ", no usable security"),
            (slot.busy, ", callback under way"),
            (slot.doubtful, ", number in doubt"),
        ];
        also.iter().filter(|(is, _)| *is).fold(state.to_string(), |text, (_, more)| text + more)
    }

    fn end(&mut self, how: impl Fn(&mut BackChannel, &Callback)) -> Outcome {
        let Some(callback) = self.under_way.take() else { return Outcome::Never };
        how(&mut self.back, &callback);
        Outcome::OK
    }
}

/// Every event in every state.
#[test]
fn transitions() {
    let about = "The back channel of a session, with one slot: RFC 8881 §2.10.3.1, §2.10.6, \
                 §18.33, §18.34, §20.9.";
    let machine = Machine::new(about, Channel::new, Channel::describe)
        .on("BIND_CONN_TO_SESSION, CREATE_SESSION", |c| {
            c.back.bind(CONN);
            Outcome::OK
        })
        .on("BACKCHANNEL_CTL", |c| {
            c.back.control(8, CallbackSec::None);
            Outcome::OK
        })
        .on("connection lost", |c| {
            c.back.unbind(CONN);
            Outcome::OK
        })
        .on("callback to be sent", |c| match c.back.begin(ClientId(1), SessionId([1; 16]), 1) {
            Some(callback) => {
                c.under_way = Some(callback);
                Outcome::said("sent")
            }
            None => Outcome::said("not now"),
        })
        .on("CB_SEQUENCE accepted", |c| c.end(|back, cb| back.end(cb, true)))
        .on("CB_SEQUENCE refused", |c| c.end(BackChannel::end_refused))
        .on("no answer", |c| c.end(|back, cb| back.end(cb, false)));
    assert_snapshot(env!("CARGO_MANIFEST_DIR"), "backchannel", &machine.table());
}
