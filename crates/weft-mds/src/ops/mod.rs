//! The operations of the metadata server, one module for each.

mod access;
mod allocate;
mod attrs;
mod clone;
mod close;
mod commit;
mod copy;
mod create;
mod data_access;
mod delegreturn;
mod get_dir_delegation;
mod getattr;
mod getdeviceinfo;
mod handles;
mod io_advise;
mod layoutcommit;
mod layoutget;
mod layoutreport;
mod layoutreturn;
mod link;
mod lock;
mod lookup;
mod open;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod secinfo;
mod seek;
mod setattr;
mod stateids;
mod verify;
mod write;
mod xattr;

use weft_nfs::{NfsStat, OpArgs, ops::OpenClaim};
use weft_server::{
    compound::{Compound, OpResult},
    op_table::{Effect, Row},
};

use super::{export::Asked, server::Mds};

/// Runs one operation. Those of sessions never get here; what is not in the list is not built.
pub(super) async fn execute(mds: &Mds, c: &mut Compound<Mds>, row: &Row, args: OpArgs) -> OpResult {
    let asked = Asked { caller: &c.caller, view: c.view, next: c.next };
    mds.export().admit(&asked, row, &args)?;
    if grows(row, &args) {
        mds.files.admit_growth()?;
    }
    match args {
        OpArgs::Allocate(a) => allocate::allocate(mds, c, &a).await,
        OpArgs::Clone(a) => clone::clone(mds, c, &a).await,
        OpArgs::Copy(a) => copy::copy(mds, c, &a).await,
        OpArgs::OffloadCancel(a) => copy::offload_cancel(mds, c, &a).await,
        OpArgs::OffloadStatus(a) => copy::offload_status(mds, c, &a),
        OpArgs::IoAdvise(a) => io_advise::io_advise(mds, c, &a),
        OpArgs::Layouterror(a) => layoutreport::layouterror(mds, c, &a),
        OpArgs::Layoutstats(a) => layoutreport::layoutstats(mds, c, &a),
        OpArgs::Deallocate(a) => allocate::deallocate(mds, c, &a).await,
        OpArgs::Seek(a) => seek::seek(mds, c, &a).await,
        OpArgs::Access(a) => access::access(mds, c, &a),
        OpArgs::Close(a) => close::close(mds, c, &a).await,
        OpArgs::Commit(a) => commit::commit(mds, c, &a).await,
        OpArgs::Create(a) => create::create(mds, c, a).await,
        OpArgs::Delegreturn(a) => delegreturn::delegreturn(mds, c, &a),
        OpArgs::GetDirDelegation(_) => get_dir_delegation::get_dir_delegation(mds, c),
        OpArgs::Getattr(a) => getattr::getattr(mds, c, &a).await,
        OpArgs::Getdeviceinfo(a) => getdeviceinfo::getdeviceinfo(mds, c, &a).await,
        OpArgs::Getfh => handles::getfh(c),
        OpArgs::Layoutcommit(a) => layoutcommit::layoutcommit(mds, c, &a).await,
        OpArgs::Layoutget(a) => layoutget::layoutget(mds, c, &a).await,
        OpArgs::Layoutreturn(a) => layoutreturn::layoutreturn(mds, c, &a).await,
        OpArgs::Link(a) => link::link(mds, c, &a).await,
        OpArgs::Lock(a) => lock::lock(mds, c, &a),
        OpArgs::Lockt(a) => lock::lockt(mds, c, &a).await,
        OpArgs::Locku(a) => lock::locku(mds, c, &a),
        OpArgs::Lookup(a) => lookup::lookup(mds, c, &a),
        OpArgs::Lookupp => lookup::lookupp(mds, c),
        OpArgs::Nverify(a) => verify::nverify(mds, c, &a).await,
        OpArgs::Open(a) => open::open(mds, c, a).await,
        OpArgs::OpenDowngrade(a) => close::open_downgrade(mds, c, &a),
        OpArgs::Putfh(a) => handles::putfh(mds, c, &a),
        OpArgs::Putpubfh => handles::putpubfh(mds, c),
        OpArgs::Putrootfh => handles::putrootfh(mds, c),
        OpArgs::Read(a) => read::read(mds, c, &a).await,
        OpArgs::Readdir(a) => readdir::readdir(mds, c, &a).await,
        OpArgs::Readlink => readlink::readlink(mds, c),
        OpArgs::Remove(a) => remove::remove(mds, c, &a).await,
        OpArgs::Rename(a) => rename::rename(mds, c, &a).await,
        OpArgs::Secinfo(a) => secinfo::secinfo(mds, c, &a),
        OpArgs::SecinfoNoName(a) => secinfo::secinfo_no_name(mds, c, &a),
        OpArgs::Setattr(a) => setattr::setattr(mds, c, &a).await,
        OpArgs::Verify(a) => verify::verify(mds, c, &a).await,
        OpArgs::Write(a) => write::write(mds, c, &a).await,
        OpArgs::Getxattr(a) => xattr::getxattr(mds, c, &a).await,
        OpArgs::Setxattr(a) => xattr::setxattr(mds, c, &a).await,
        OpArgs::Listxattrs(a) => xattr::listxattrs(mds, c, &a),
        OpArgs::Removexattr(a) => xattr::removexattr(mds, c, &a).await,
        OpArgs::FreeStateid(a) => stateids::free_stateid(mds, c, &a),
        OpArgs::TestStateid(a) => stateids::test_stateid(mds, c, &a),
        OpArgs::BackchannelCtl(_)
        | OpArgs::BindConnToSession(_)
        | OpArgs::ExchangeId(_)
        | OpArgs::CreateSession(_)
        | OpArgs::DestroySession(_)
        | OpArgs::DestroyClientid(_)
        | OpArgs::ReclaimComplete(_)
        | OpArgs::Restorefh
        | OpArgs::Savefh
        | OpArgs::Sequence(_)
        | OpArgs::Unread(_) => Err(NfsStat::NOTSUPP.into()),
    }
}

/// Whether an operation makes names, of files or of attributes: not while the volume's disk is
/// full.
fn grows(row: &Row, args: &OpArgs) -> bool {
    match (row.effect, args) {
        (Effect::Grows, _) => true,
        (_, OpArgs::Open(a)) => a.openhow.is_some() && matches!(a.claim, OpenClaim::Null(_)),
        _ => false,
    }
}
