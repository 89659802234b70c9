//! Signals to a mount. The first one saves the data that programs have written, and unmounts when
//! no program uses the mount. The second one does not wait for that.

use std::time::{Duration, Instant};

use weft_fuse::Ending;

use super::in_use;
use crate::{client_cmds::Interrupts, outcome::Outcome};

/// Time between two tries to unmount.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// Time between two lines about programs that use the mount.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Longest time for finding those programs.
const LOOK_LIMIT: Duration = Duration::from_secs(3);
/// Longest time for saving at the first signal: the second one ends it before.
const PATIENCE: Duration = Duration::from_secs(86_400);
/// Longest time for saving at the second signal.
const SAVE_LIMIT: Duration = Duration::from_secs(2);
/// Longest time for closing files then, so that delegations and layouts go back.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Resolves at the second signal. The first one unmounts, as soon as no program is in the way.
pub(super) async fn asked_twice(interrupts: &mut Interrupts, ending: &Ending) {
    interrupts.next().await;
    tokio::select! {
        () = unmount_when_unused(ending) => {}
        _ = interrupts.next() => return,
    }
    // The mount ends now, unless a server keeps it waiting.
    interrupts.next().await;
}

async fn unmount_when_unused(ending: &Ending) {
    if ending.unmount().await.is_err() {
        tokio::join!(save(ending), unmount_later(ending));
    }
}

/// Saves what programs have written so far, and says how that went.
async fn save(ending: &Ending) {
    match ending.save(PATIENCE).await {
        Ok(()) => eprintln!("weft: what was written so far is saved"),
        Err(e) => eprintln!("weft: {e}"),
    }
}

/// Unmounts when no program uses the mount, and says which one does.
async fn unmount_later(ending: &Ending) {
    let mut said = None;
    while let Err(e) = ending.unmount().await {
        if said.is_none_or(|at: Instant| at.elapsed() >= SAY_EVERY) {
            said = Some(Instant::now());
            eprintln!("weft: {}: {}", ending.dir().display(), why(ending, &e).await);
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}

/// Why the mount is still there, and what to do about it.
async fn why(ending: &Ending, e: &std::io::Error) -> String {
    if e.kind() != std::io::ErrorKind::ResourceBusy {
        return format!("cannot be unmounted: {e}");
    }
    let dir = ending.dir().to_owned();
    // Another process may keep this waiting.
    let looking = tokio::task::spawn_blocking(move || in_use::users_of(&dir));
    let users = match tokio::time::timeout(LOOK_LIMIT, looking).await {
        Ok(Ok(users)) if !users.is_empty() => in_use::words(&users),
        _ => format!("{} open files", ending.open_files()),
    };
    format!("busy: {users}. It is unmounted after the last use, or at once by another signal")
}

/// Ends the mount though programs use it.
///
/// # Errors
/// Something that programs have written is not saved.
pub(super) async fn end_now(ending: &Ending) -> Outcome {
    if let Err(e) = ending.detach().await {
        // It may have gone already.
        tracing::warn!("{}: cannot be unmounted: {e}", ending.dir().display());
    }
    let saved = ending.save(SAVE_LIMIT).await;
    // The end of the session closes the remaining files.
    let _ = tokio::time::timeout(CLOSE_LIMIT, ending.close_all()).await;
    Ok(saved?)
}
