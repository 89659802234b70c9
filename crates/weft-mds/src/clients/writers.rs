//! What others are told of a file that the holder of a write delegation changes: CB_GETATTR (RFC
//! 8881 §10.4.3, §20.1).
//!
//! The holder may have become silent, or may never have meant to answer. A request that only looks
//! at attributes waits for it once and is told what the server knows; a request that depends on the
//! truth has the file taken back.

use std::{collections::HashMap, sync::Arc, time::Instant};

use tokio::{task::JoinSet, time::timeout};
use weft_nfs::{
    AttrNo, Bitmap, ClientId, Failure, NfsStat,
    callback::{CbBody, CbGetattrArgs, CbOp},
};
use weft_server::rpc::CallbackError;
use weft_state::FileKey;
use weft_store::types::{Inode, InodeNo, Kind};

use super::delegations::{Delegations, Recall};
use crate::{files::WriterTold, handle::Handle};

/// Files of which a listing asks the holders at once: half of the slots of Linux'
/// back channel.
const ASKED_AT_ONCE: usize = 8;

/// What the holder of a write delegation says of its file.
pub(crate) enum Told {
    /// Nothing: there is no holder, or it says nothing, and the caller only looks.
    Nothing,
    /// There is no holder any more: the file is to be looked at anew.
    GaveBack,
    /// This.
    Writer(WriterTold),
}

/// What a request does with the attributes that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Shows them.
    Look,
    /// Goes on or fails by them (VERIFY).
    Compare,
}

/// The answer of a holder to CB_GETATTR.
enum Answer {
    /// The attributes.
    Says(WriterTold),
    /// An error, or no attributes: it may not know the delegation yet.
    SaysNothing,
    /// None in time.
    Silence,
    /// It has no back channel now: it cannot be asked before it binds one.
    Unreachable,
}

impl Delegations {
    /// Asks the client that is alone with a file for its size and its changes. A client that does
    /// not say them has to give the file back. A caller that only looks waits for that no longer
    /// than for an answer, and not at all if the client is known to be silent or cannot be called
    /// back.
    ///
    /// # Errors
    /// DELAY when that takes too long for a caller that compares: it asks again.
    pub(crate) async fn ask_writer(
        self: &Arc<Self>,
        client: ClientId,
        ino: InodeNo,
        purpose: Purpose,
    ) -> Result<Told, Failure> {
        let file = self.files.key(ino);
        let looks = purpose == Purpose::Look;
        let (writer, unchanged) = {
            let state = self.protocol.state();
            let Some(writer) = state.delegated_writer(file, client) else {
                return Ok(Told::Nothing);
            };
            (writer, state.unchanged_by_writer(file, client))
        };
        let is_live = self.is_live(writer);
        if looks && is_live && !self.can_be_asked(writer) {
            return Ok(Told::Nothing);
        }
        if let Some(unchanged) = unchanged
            && is_live
        {
            match self.what_writer_says(writer, file, unchanged).await {
                Answer::Says(told) => return Ok(Told::Writer(told)),
                Answer::Silence | Answer::Unreachable if looks => return Ok(Told::Nothing),
                Answer::Silence | Answer::Unreachable | Answer::SaysNothing => {}
            }
        }
        match self.given_back(client, &[file], Recall::Writers).await {
            Ok(_) => Ok(Told::GaveBack),
            Err(_) if looks => Ok(Told::Nothing),
            Err(failure) => Err(failure),
        }
    }

    /// Whether an answer can be expected of a client whose lease is valid.
    fn can_be_asked(&self, writer: ClientId) -> bool {
        let is_silent = self.protocol.state().is_silent(writer);
        !is_silent && self.core.sessions().has_back_channel(writer)
    }

    /// Asks a holder. One that does not answer in time is silent from now on, and its file is
    /// recalled: the answer to that shows that the holder is back.
    async fn what_writer_says(
        self: &Arc<Self>,
        writer: ClientId,
        file: FileKey,
        unchanged: u64,
    ) -> Answer {
        let request = Bitmap::of(&[AttrNo::CHANGE, AttrNo::SIZE]);
        let op = CbOp::Getattr(CbGetattrArgs { fh: Handle::of(file).to_wire(), request });
        let (callbacks, protocol) = (self.callbacks.clone(), self.protocol.clone());
        // Goes on if nobody waits any more: it holds a slot of the back channel.
        let asked = tokio::spawn(async move {
            let answer = callbacks.ask(writer, &op).await;
            if answer.is_ok() {
                protocol.state().callback_answered(writer);
            }
            answer
        });
        let answer = match timeout(self.patience(), asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Answer::SaysNothing,
            Err(_) => Err(CallbackError::TimedOut),
        };
        tracing::debug!(client = writer.0, ?answer, "CB_GETATTR");
        match answer {
            Ok((NfsStat::OK, CbBody::Getattr(attrs))) => match (attrs.size, attrs.change) {
                (Some(size), Some(change)) => Answer::Says(WriterTold { size, change, unchanged }),
                _ => Answer::SaysNothing,
            },
            Err(CallbackError::TimedOut) => {
                self.recall(writer, file, Recall::Writers);
                self.protocol.state().callback_unanswered(writer);
                Answer::Silence
            }
            Err(_) if !self.core.sessions().has_back_channel(writer) => Answer::Unreachable,
            _ => Answer::SaysNothing,
        }
    }

    /// Asks the holders of many files, for a listing. A holder that says nothing keeps its file
    /// unless it is silent: a listing does not wait for that, and shows what the server knows.
    pub(crate) async fn ask_writers(
        self: &Arc<Self>,
        client: ClientId,
        inodes: &[Inode],
    ) -> HashMap<InodeNo, WriterTold> {
        let mut writers = {
            let state = self.protocol.state();
            let files = inodes.iter().filter(|inode| inode.kind == Kind::File);
            let of = |inode: &Inode| {
                let file = self.files.key(inode.no);
                let writer = state.delegated_writer(file, client)?;
                Some((writer, file, state.unchanged_by_writer(file, client)?))
            };
            files.filter_map(of).collect::<Vec<_>>().into_iter()
        };
        let (mut told, mut asking) = (HashMap::new(), JoinSet::new());
        let deadline = Instant::now() + self.patience();
        loop {
            while asking.len() < ASKED_AT_ONCE
                && Instant::now() < deadline
                && let Some((writer, file, unchanged)) = writers.next()
            {
                let me = self.clone();
                asking.spawn(async move {
                    let says = match me.is_live(writer) && me.can_be_asked(writer) {
                        true => me.what_writer_says(writer, file, unchanged).await,
                        false => Answer::Unreachable,
                    };
                    (InodeNo(file.object), says)
                });
            }
            match asking.join_next().await {
                Some(Ok((ino, Answer::Says(says)))) => drop(told.insert(ino, says)),
                Some(_) => {}
                None => return told,
            }
        }
    }
}
