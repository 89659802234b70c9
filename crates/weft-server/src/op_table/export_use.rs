//! What each operation has to do with the export: which of them its rules and flavors concern.

use weft_nfs::OpNum;

/// What an operation has to do with the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportUse {
    /// Nothing: state, devices, and handles by themselves.
    Nothing,
    /// It sets the current filehandle.
    PutsHandle,
    /// It asks how to come in.
    Security,
    /// It goes on to another object.
    Walks,
    /// As `Walks`, or `Changes` when it opens for writing. One that creates may find that there
    /// is nothing to be created: `mds/ops/open.rs` looks.
    Opens,
    /// It looks at an object.
    Reads,
    /// It changes one.
    Changes,
}

macro_rules! uses {
    ($($uses:ident: $($op:ident)*;)*) => {
        const USES: &[(ExportUse, &[OpNum])] =
            &[$((ExportUse::$uses, &[$(OpNum::$op),*])),*];
    };
}

uses! {
    Nothing: BACKCHANNEL_CTL BIND_CONN_TO_SESSION CLOSE CREATE_SESSION DELEGRETURN
        DESTROY_CLIENTID DESTROY_SESSION EXCHANGE_ID FREE_STATEID GETDEVICEINFO GETFH LAYOUTERROR
        LAYOUTRETURN LAYOUTSTATS LOCKU OFFLOAD_CANCEL OFFLOAD_STATUS OPEN_DOWNGRADE
        RECLAIM_COMPLETE RESTOREFH SAVEFH SEQUENCE TEST_STATEID;
    PutsHandle: PUTFH PUTPUBFH PUTROOTFH;
    Security: SECINFO SECINFO_NO_NAME;
    Walks: LOOKUP LOOKUPP;
    Opens: OPEN;
    // LAYOUTCOMMIT too: who may not write has no layout to commit.
    Reads: ACCESS COMMIT GETATTR GETXATTR IO_ADVISE LAYOUTCOMMIT LAYOUTGET LISTXATTRS LOCK LOCKT
        NVERIFY READ READDIR READLINK SEEK VERIFY;
    Changes: ALLOCATE CLONE COPY CREATE DEALLOCATE LINK REMOVE REMOVEXATTR RENAME SETATTR SETXATTR
        WRITE;
}

/// What an operation has to do with the export; `None` for those that nobody builds.
pub fn export_use(op: OpNum) -> Option<ExportUse> {
    USES.iter().find(|(_, ops)| ops.contains(&op)).map(|(uses, _)| *uses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op_table::{MINOR_MAX, Server, row};

    /// Every operation that the metadata server builds is in the list once, and no other is.
    #[test]
    fn every_operation_that_is_built_has_one() {
        for op in OpNum::ALL {
            let built = row(*op, MINOR_MAX).is_some() && Server::Mds.builds(*op);
            let listed = USES.iter().flat_map(|(_, ops)| *ops).filter(|o| *o == op).count();
            assert_eq!(listed, usize::from(built), "{op}");
        }
    }
}
