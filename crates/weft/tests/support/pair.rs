//! Two guests at once, in step: `host meet STEP WHAT` in both returns when both have come to it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::guest::{Guest, Report};

/// Time one guest waits for the other: longer than any step takes, shorter than a script.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs both guests to their ends; `host` answers their other commands. Panics as [`Guest::run`]
/// does, and when the guests do not take the same steps.
pub fn run(pair: [Guest; 2], host: &(dyn Fn(&str) -> Result<(), String> + Sync)) -> [Report; 2] {
    let meeting = &Meeting::default();
    std::thread::scope(|scope| {
        let guests = pair.map(|guest| {
            scope.spawn(move || {
                let _leaves = Leaves(meeting);
                guest.run(&mut (), |(), words| match words.strip_prefix("meet ") {
                    Some(step) => meeting.meet(step),
                    None => host(words),
                })
            })
        });
        let [first, second] = guests.map(|guest| guest.join());
        match (first, second) {
            (Ok(first), Ok(second)) => [first, second],
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// Where the two guests wait for each other.
#[derive(Default)]
struct Meeting {
    place: Mutex<Place>,
    changed: Condvar,
}

#[derive(Default)]
struct Place {
    /// The step of the guest that is there already.
    waiting: Option<String>,
    /// Meetings so far.
    held: u64,
    /// The guests met at different steps.
    apart: bool,
    /// A guest has ended: nobody else will come.
    left: bool,
}

impl Meeting {
    fn meet(&self, step: &str) -> Result<(), String> {
        let mut place = self.place.lock().expect("no panic in here");
        if let Some(other) = place.waiting.take() {
            place.held += 1;
            place.apart |= other != step;
            self.changed.notify_all();
            return place.together();
        }
        let next = place.held + 1;
        place.waiting = Some(step.to_owned());
        let waits = |place: &mut Place| place.held < next && !place.left;
        let waited = self.changed.wait_timeout_while(place, PATIENCE, waits);
        let (place, _) = waited.expect("no panic in here");
        if place.held < next {
            return Err(format!("the other has {}", if place.left { "left" } else { "not come" }));
        }
        place.together()
    }
}

impl Place {
    fn together(&self) -> Result<(), String> {
        if self.apart { Err("the other takes another step".to_owned()) } else { Ok(()) }
    }
}

/// Tells the other guest when this one has ended, well or not.
struct Leaves<'a>(&'a Meeting);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let place = self.0.place.lock();
        place.unwrap_or_else(std::sync::PoisonError::into_inner).left = true;
        self.0.changed.notify_all();
    }
}
