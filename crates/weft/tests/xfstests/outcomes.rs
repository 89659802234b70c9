//! What became of tests, and whether that was expected.

use std::collections::BTreeMap;

use super::support;

/// Tests of others that may fail here.
const EXPECTED: &str = "tests/guest/xfstests-expected.txt";

pub const PASSED: &str = "passed";
pub const FAILED: &str = "FAILED";
pub const SKIPPED: &str = "skipped";
/// Of a test in the list that fails and passes.
const SOMETIMES: &str = "sometimes";

/// What became of the tests that were asked for, by name.
pub type Outcomes = BTreeMap<String, Outcome>;

pub struct Outcome {
    /// `passed`, `FAILED` or `skipped`.
    pub what: String,
    pub reason: String,
}

/// Takes down and prints `OUTCOME NAME SECONDS REASON`.
pub fn note(server: &str, outcomes: &mut Outcomes, words: &str) -> Result<(), String> {
    let parts: Vec<&str> = words.splitn(4, ' ').collect();
    let [what, name, seconds] = parts[..3] else { return Err("what of which test?".to_owned()) };
    let reason = parts.get(3).map_or("", |reason| reason.trim()).to_owned();
    eprintln!("{server} {name} {what} {seconds} s {reason}");
    outcomes.insert(name.to_owned(), Outcome { what: what.to_owned(), reason });
    Ok(())
}

/// Names of the tests with an outcome.
pub fn names<'a>(outcomes: &'a Outcomes, what: &'a str) -> impl Iterator<Item = &'a str> {
    let found = outcomes.iter().filter(move |(_, outcome)| outcome.what == what);
    found.map(|(name, _)| name.as_str())
}

/// Prints what did not end alike on two servers.
pub fn tell_differences(here: (&str, &Outcomes), there: (&str, &Outcomes)) {
    for (name, outcome) in here.1 {
        let Some(other) = there.1.get(name).filter(|other| other.what != outcome.what) else {
            continue;
        };
        let told = [(here.0, outcome), (there.0, other)]
            .map(|(server, outcome)| format!("{server} {} {}", outcome.what, outcome.reason));
        eprintln!("differs: {name}: {}", told.map(|text| text.trim().to_owned()).join("; "));
    }
}

/// On this server only tests fail of which the list says so, and those do, unless they do so only
/// `sometimes`.
pub fn as_expected(server: &str, outcomes: &Outcomes) {
    let listed = support::expected(EXPECTED, server);
    let is = |how: &str, name: &str| listed.contains(&format!("{how} {name}"));
    let unexpected: Vec<_> =
        names(outcomes, FAILED).filter(|name| !is(FAILED, name) && !is(SOMETIMES, name)).collect();
    assert!(unexpected.is_empty(), "fail, and are not in {EXPECTED}: {unexpected:?}");
    let mended: Vec<_> = names(outcomes, PASSED).filter(|name| is(FAILED, name)).collect();
    assert!(mended.is_empty(), "pass, and are in {EXPECTED}: {mended:?}");
}
