//! The records that come on a connection, opened if it is a secure one.

use std::{io, sync::Arc};

use bytes::Bytes;
use tokio::{net::tcp::OwnedReadHalf, time::timeout};
use weft_io::{Begun, OpenRecords, RecordIoError, RecordReader, Segment};
use weft_xdr::{Decode, Reader, rpc::Message};

use super::{
    Conn, Program,
    conn::Outgoing,
    hosts::{ConnectionPermit, RecordBudget},
};

/// Longest record accepted: a 4 MiB WRITE and its headers.
const RECORD_BYTES_MAX: usize = (4 << 20) + (64 << 10);

/// A record, and the room that a large one takes until it is answered.
pub(super) type Received = (Bytes, Option<RecordBudget>);

/// The receiving side of a connection.
pub(super) struct Incoming<'a> {
    records: RecordReader<OwnedReadHalf>,
    programs: &'a [Arc<dyn Program>],
    /// Whether nothing was received so far.
    is_first: bool,
    secured: Option<Secured<'a>>,
}

/// What came of a greeting.
struct Secured<'a> {
    opener: Box<dyn OpenRecords>,
    /// Who answered it, until the peer has proven itself.
    greeted: Option<&'a dyn Program>,
}

impl<'a> Incoming<'a> {
    /// Of a connection on which these programs are served.
    pub(super) fn new(read: OwnedReadHalf, programs: &'a [Arc<dyn Program>]) -> Self {
        let records = RecordReader::new(read, RECORD_BYTES_MAX);
        Incoming { records, programs, is_first: true, secured: None }
    }

    /// The next record, as its sender made it; none if the peer has closed the connection.
    ///
    /// May be dropped at any await and called again.
    ///
    /// # Errors
    /// The connection must end.
    pub(super) async fn next(
        &mut self,
        conn: &Arc<Conn>,
        place: &ConnectionPermit,
    ) -> Result<Option<Received>, RecordIoError> {
        loop {
            // What is sealed says nothing before it is opened.
            let programs = if self.secured.is_none() { self.programs } else { &[] };
            let received = receive(&mut self.records, programs, place).await?;
            let Some((record, room)) = received else {
                // Who has no more to ask still has the answers that need not wait.
                tokio::task::yield_now().await;
                return Ok(None);
            };
            if let Some(secured) = &mut self.secured {
                let opened = secured.opener.open(record).inspect_err(|error| {
                    tracing::warn!(peer = %conn.peer, %error, "a secure connection ends");
                })?;
                if let Some(program) = secured.greeted.take() {
                    program.proven(conn);
                }
                return Ok(Some((opened, room)));
            }
            if !std::mem::take(&mut self.is_first) || !self.greeted(conn, &record) {
                return Ok(Some((record, room)));
            }
        }
    }

    /// Whether the next record may be here already; if not, [`Self::next`] waits, unless it finds
    /// the end.
    pub(super) fn may_have_more(&self) -> bool {
        self.records.may_have_more()
    }

    /// Answers the first record, if it is a greeting.
    fn greeted(&mut self, conn: &Conn, first: &Bytes) -> bool {
        let greet = |p: &'a Arc<dyn Program>| p.greet(conn, first).map(|g| (&**p, g));
        let Some((program, greeted)) = self.programs.iter().find_map(greet) else {
            return false;
        };
        let mut answer = Outgoing::small(vec![Segment::Bytes(greeted.answer)]);
        if let Some((ciphers, name)) = greeted.secured {
            answer.seal = Some(ciphers.seal);
            self.secured = Some(Secured { opener: ciphers.open, greeted: Some(program) });
            conn.is_of(name);
        }
        // The queue is empty: nothing was asked before. If it is closed, so is the connection.
        let _ = conn.out.try_send(answer);
        true
    }
}

/// The next record. A large one is received when there is room for it; one that then dawdles ends
/// its connection if others wait for the room.
async fn receive(
    records: &mut RecordReader<OwnedReadHalf>,
    programs: &[Arc<dyn Program>],
    place: &ConnectionPermit,
) -> Result<Option<Received>, RecordIoError> {
    let bytes = match records.begin().await? {
        Begun::Record(record) => return Ok(Some((record, None))),
        Begun::Ended => return Ok(None),
        Begun::Large(bytes) => bytes,
    };
    let room = place.room(bytes).await;
    // A disk that is written past the page cache wants it so.
    records.align(|head| payload_at(programs, head));
    loop {
        match timeout(room.patience(), records.next()).await {
            Ok(received) => return received.map(|record| record.map(|r| (r, Some(room)))),
            Err(_) if room.is_wanted() => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            Err(_) => {}
        }
    }
}

/// Where the payload of a call begins, by its head; none if it is no such call.
fn payload_at(programs: &[Arc<dyn Program>], head: &[u8]) -> Option<usize> {
    let mut args = Reader::new(Bytes::copy_from_slice(head));
    let Ok(Message::Call(_, header)) = Message::decode(&mut args) else { return None };
    let program = programs.iter().find(|p| p.program() == header.program)?;
    program.skip_to_payload(&mut args).then(|| args.position())
}
