//! `docs/operations.md`, made from the table.

use std::fmt::Write;

use weft_nfs::NfsStat;

use super::{
    row::{
        BuiltBy, Effect, ExportUse, Position, Row,
        Server::{self, Ds, Mds},
    },
    rows::{EVERYWHERE, ROWS},
};

const HEAD: &str = "# Operations

Made from the operation table (`crates/weft-server/src/op_table`) by its test: \
`WEFT_BLESS=1 cargo test -p weft-server --lib
op_table` writes it anew. What a server does not execute answers NFS4ERR_NOTSUPP; 4.0 operations, \
which 4.1 forbids (\"must not\"),
do so too.

Every operation may also answer: ";

const COLUMNS: &str = "
| operation | since | where | MDS | DS | export | effect | may answer |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

fn page() -> String {
    let mut page = format!("{HEAD}{}.\n{COLUMNS}", names(EVERYWHERE.iter().skip(1)));
    ROWS.iter().for_each(|row| line(&mut page, row));
    page.push_str("\nBeyond the tables of the RFCs:\n\n");
    for row in ROWS {
        for (status, why) in row.beyond {
            writeln!(page, "- {} answers {status}: {why}", row.op).expect("a string takes it");
        }
    }
    page
}

fn names<'a>(statuses: impl Iterator<Item = &'a NfsStat>) -> String {
    statuses.map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn line(page: &mut String, row: &Row) {
    let position = match row.position {
        Position::InSession => "in a session",
        Position::First => "first",
        Position::AloneOrInSession => "alone, or in a session",
        Position::Alone => "alone",
    };
    let export = match row.export {
        ExportUse::Nothing => "",
        ExportUse::ComesOrGoes => "comes or goes",
        ExportUse::PutsHandle => "puts a handle",
        ExportUse::MovesHandle => "moves a handle",
        ExportUse::Security => "asks for flavors",
        ExportUse::Walks => "walks",
        ExportUse::Uses => "uses",
    };
    let effect = match row.effect {
        Effect::Nothing => "",
        Effect::State => "opens, locks",
        Effect::Changes => "changes",
        Effect::Grows => "changes, grows",
        Effect::Opens => "opens, may change and grow",
    };
    let built = |server: Server| match row.built_by {
        BuiltBy::Obsolete => "must not",
        _ if row.is_built_by(server) => "yes",
        _ => "",
    };
    let (mds, ds) = (built(Mds), built(Ds));
    let may = names(row.statuses.iter().chain(row.beyond.iter().map(|(status, _)| status)));
    let (op, since) = (row.op, row.since_minor);
    writeln!(
        page,
        "| {} {op} | 4.{since} | {position} | {mds} | {ds} | {export} | {effect} | {may} |",
        op.0
    )
    .expect("a string takes it");
}

/// The page in the repository is this one.
#[test]
fn the_page_is_current() {
    let at = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(at, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(at).unwrap_or_default(), page(), "see the page's head");
}
