//! Makes a plan that found something as short as it still finds something.

use std::time::{Duration, Instant};

use super::judge::{Finding, Judge};
use super::plan::Plan;

/// Time for one plan.
const TIME: Duration = Duration::from_secs(40);
/// Lives of a shorter plan: what is found may be a matter of chance.
const LIVES: usize = 8;

/// The shortest plan that found something, when each step was left out in turn.
pub fn shrink(judge: &Judge, finding: &Finding) -> Plan {
    let deadline = Instant::now() + TIME;
    let mut shortest = finding.plan.clone();
    if let Some(last) = finding.step {
        shortest.steps.truncate(last + 1);
    }
    let mut at = shortest.steps.len().saturating_sub(2);
    while at > 0 && Instant::now() < deadline {
        let mut shorter = shortest.clone();
        shorter.steps.remove(at);
        let mut lives = (0..LIVES).take_while(|_| Instant::now() < deadline);
        if lives.any(|_| judge.life(&shorter, finding.pair).is_some()) {
            shortest = shorter;
        }
        at -= 1;
    }
    shortest
}
