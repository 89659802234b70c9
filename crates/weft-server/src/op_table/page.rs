//! `docs/operations.md`, made from the table.

use std::fmt::Write;

use weft_nfs::OpNum;

use super::{ExportUse, MINOR_MAX, Place, Row, Server, export_use, row, statuses};

const HEAD: &str = "# Operations

Made from the operation table (`crates/weft-server/src/op_table`) by its test: `WEFT_BLESS=1 cargo test -p weft-server --lib
op_table` writes it anew. What a server does not build answers NFS4ERR_NOTSUPP; 4.0 operations do so too.

Every operation may also answer: ";

fn page() -> String {
    let mut page = String::from(HEAD);
    page.push_str(&statuses::everywhere().join(" "));
    page.push_str(".\n\n| operation | since | where | MDS | DS | export | may answer |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    let rows = OpNum::ALL.iter().filter_map(|op| row(*op, MINOR_MAX));
    rows.for_each(|row| line(&mut page, row));
    page.push_str("\nBeyond the tables of the RFCs:\n\n");
    for (op, status, why) in statuses::beyond() {
        writeln!(page, "- {op} answers {status}: {why}").expect("a string takes it");
    }
    page
}

fn line(page: &mut String, Row { op, since_minor, place }: Row) {
    let place = match place {
        Place::InSession => "in a session",
        Place::Sequence => "first",
        Place::AloneOrInSession => "alone, or in a session",
        Place::Alone => "alone",
    };
    let export = match export_use(op) {
        None | Some(ExportUse::Nothing) => "",
        Some(ExportUse::PutsHandle) => "puts a handle",
        Some(ExportUse::Security) => "asks for flavors",
        Some(ExportUse::Walks) => "walks",
        Some(ExportUse::Opens) => "walks or changes",
        Some(ExportUse::Reads) => "reads",
        Some(ExportUse::Changes) => "changes",
    };
    let built = |server: Server| if server.builds(op) { "yes" } else { "" };
    let (mds, ds, may) = (built(Server::Mds), built(Server::Ds), statuses::own(op).join(" "));
    writeln!(
        page,
        "| {} {op} | 4.{since_minor} | {place} | {mds} | {ds} | {export} | {may} |",
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
