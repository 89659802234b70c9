//! The rows: RFC 8881 §15.2, §17 and §18, RFC 7862 §11.2 and §14, RFC 8276 §8.4.

use weft_nfs::{NfsStat, OpNum};

use super::row::{BuiltBy, Effect, ExportUse, Position, Row};

/// What every operation may answer: the errors of XDR, sessions and a server in trouble, and
/// NOTSUPP for what a role does not build.
pub(super) const EVERYWHERE: &[NfsStat] = &[
    NfsStat::OK,
    NfsStat::BADXDR,
    NfsStat::DEADSESSION,
    NfsStat::DELAY,
    NfsStat::NOTSUPP,
    NfsStat::OP_NOT_IN_SESSION,
    NfsStat::REP_TOO_BIG,
    NfsStat::REP_TOO_BIG_TO_CACHE,
    NfsStat::REQ_TOO_BIG,
    NfsStat::RETRY_UNCACHED_REP,
    NfsStat::SERVERFAULT,
    NfsStat::TOO_MANY_OPS,
];

/// Why operations that write say LOCKED, as WRITE may.
const DENIED: &str = "without an open, another's share reservation may deny it";
const FENCED: &str = "a data server tells a fenced client, as READ and WRITE may (RFC 8881 §13.6)";
const ABOUT_THE_FILE: &str = "it is about the current file";
const NOWHERE: &str = "no data server is configured for what does not stay in the volume";
const NOT_SERVED: &str =
    "the export does not serve the host, which could end clients that it serves";
const STICKY: &str = "a sticky directory: POSIX's EPERM, which ACCESS would hide";

/// What stands for a number that the minor version does not have (RFC 8881 §16.2.3).
pub(super) const ILLEGAL: Row = Row {
    op: OpNum::ILLEGAL,
    since_minor: 0,
    position: Position::InSession,
    built_by: BuiltBy::Nobody,
    export: ExportUse::Nothing,
    effect: Effect::Nothing,
    statuses: &[NfsStat::OP_ILLEGAL],
    beyond: &[],
};

impl Row {
    /// The row of a number in this minor version; ILLEGAL's for one that it does not have.
    pub fn of(op: OpNum, minorversion: u32) -> &'static Row {
        let at = usize::try_from(op.0).ok().and_then(|number| number.checked_sub(FIRST));
        let row = at.and_then(|at| ROWS.get(at));
        row.filter(|row| row.since_minor <= minorversion).unwrap_or(&ILLEGAL)
    }

    /// What stands for an operation that has no number, or none of this minor version.
    pub fn illegal() -> &'static Row {
        &ILLEGAL
    }

    /// Whether the operation may answer this: RFC 8881 §15.2, RFC 7862 §11.2, RFC 8276 §8.4.5, and
    /// where we go beyond them.
    pub fn may_answer(&self, status: NfsStat) -> bool {
        EVERYWHERE.contains(&status)
            || self.statuses.contains(&status)
            || self.beyond.iter().any(|(ours, _)| *ours == status)
    }
}

/// `OPERATION: position, built by, use of the export, effect [the RFCs' statuses] beyond [ours]`,
/// the statuses without [`EVERYWHERE`].
macro_rules! rows {
    ($(
        $op:ident: $position:ident $built_by:ident $export:ident $effect:ident
            [$($status:ident)*] $(beyond [$($ours:ident: $why:expr),* $(,)?])?;
    )*) => {
        &[$(Row {
            op: OpNum::$op,
            since_minor: match OpNum::$op.since_minor() {
                Some(minor) => minor,
                None => panic!("an operation has a minor version"),
            },
            position: Position::$position,
            built_by: BuiltBy::$built_by,
            export: ExportUse::$export,
            effect: Effect::$effect,
            statuses: &[$(NfsStat::$status),*],
            beyond: &[$($((NfsStat::$ours, $why)),*)?],
        }),*]
    };
}

/// The number of the first row; the others follow without a gap.
pub(super) const FIRST: usize = 3;

/// One row an operation, by number.
pub(super) const ROWS: &[Row] = rows! {
    ACCESS: InSession Mds Uses Nothing [ACCESS FHEXPIRED INVAL IO MOVED NOFILEHANDLE STALE];
    CLOSE: InSession Mds Nothing State
        [ADMIN_REVOKED BAD_STATEID EXPIRED FHEXPIRED LOCKS_HELD MOVED NOFILEHANDLE OLD_STATEID
         STALE WRONG_CRED];
    COMMIT: InSession Both Uses Nothing
        [ACCESS FHEXPIRED IO ISDIR MOVED NOFILEHANDLE STALE SYMLINK WRONG_TYPE]
        beyond [
            INVAL: "RFC 8881 §18.3.3 asks for it where the range overflows",
            PNFS_NO_LAYOUT: FENCED,
        ];
    CREATE: InSession Mds Uses Grows
        [ACCESS ATTRNOTSUPP BADCHAR BADNAME BADOWNER BADTYPE DQUOT EXIST FHEXPIRED INVAL IO MLINK
         MOVED NAMETOOLONG NOFILEHANDLE NOSPC NOTDIR PERM ROFS STALE UNSAFE_COMPOUND];
    DELEGPURGE: InSession Nobody Nothing Nothing [WRONG_CRED];
    DELEGRETURN: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED INVAL MOVED NOFILEHANDLE
         OLD_STATEID STALE WRONG_CRED];
    GETATTR: InSession Mds Uses Nothing
        [ACCESS FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE STALE WRONG_TYPE];
    GETFH: InSession Mds Nothing Nothing [FHEXPIRED MOVED NOFILEHANDLE STALE];
    LINK: InSession Mds Uses Grows
        [ACCESS BADCHAR BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN GRACE INVAL IO ISDIR MLINK MOVED
         NAMETOOLONG NOFILEHANDLE NOSPC NOTDIR ROFS STALE SYMLINK WRONGSEC WRONG_TYPE XDEV];
    LOCK: InSession Mds Uses State
        [ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID DEADLOCK DENIED EXPIRED FHEXPIRED GRACE INVAL
         ISDIR LOCK_NOTSUPP LOCK_RANGE MOVED NOFILEHANDLE NO_GRACE OLD_STATEID OPENMODE
         RECLAIM_BAD RECLAIM_CONFLICT ROFS STALE SYMLINK WRONG_CRED WRONG_TYPE];
    LOCKT: InSession Mds Uses Nothing
        [ACCESS BAD_RANGE DENIED FHEXPIRED GRACE INVAL ISDIR LOCK_RANGE MOVED NOFILEHANDLE ROFS
         STALE SYMLINK WRONG_CRED WRONG_TYPE];
    LOCKU: InSession Mds Nothing State
        [ACCESS ADMIN_REVOKED BAD_RANGE BAD_STATEID EXPIRED FHEXPIRED INVAL LOCK_RANGE MOVED
         NOFILEHANDLE OLD_STATEID STALE WRONG_CRED];
    LOOKUP: InSession Mds Walks Nothing
        [ACCESS BADCHAR BADNAME FHEXPIRED INVAL IO MOVED NAMETOOLONG NOENT NOFILEHANDLE NOTDIR
         STALE SYMLINK WRONGSEC];
    LOOKUPP: InSession Mds Walks Nothing
        [ACCESS FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOTDIR STALE SYMLINK WRONGSEC];
    NVERIFY: InSession Mds Uses Nothing
        [ACCESS ATTRNOTSUPP BADCHAR FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE SAME STALE
         UNKNOWN_LAYOUTTYPE WRONG_TYPE];
    OPEN: InSession Mds Walks Opens
        [ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADNAME BADOWNER BAD_STATEID
         DELEG_ALREADY_WANTED DELEG_REVOKED DQUOT EXIST EXPIRED FBIG FHEXPIRED GRACE INVAL IO
         ISDIR MOVED NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NO_GRACE OLD_STATEID PERM
         RECLAIM_BAD RECLAIM_CONFLICT ROFS SHARE_DENIED STALE SYMLINK UNSAFE_COMPOUND WRONGSEC
         WRONG_TYPE]
        beyond [NXIO: NOWHERE];
    OPENATTR: InSession Nobody Nothing Nothing
        [ACCESS DQUOT FHEXPIRED IO MOVED NOENT NOFILEHANDLE NOSPC ROFS STALE UNSAFE_COMPOUND
         WRONG_TYPE];
    OPEN_CONFIRM: InSession Obsolete Nothing Nothing [];
    OPEN_DOWNGRADE: InSession Mds Nothing State
        [ADMIN_REVOKED BAD_STATEID EXPIRED FHEXPIRED INVAL MOVED NOFILEHANDLE OLD_STATEID ROFS
         STALE WRONG_CRED];
    PUTFH: InSession Both PutsHandle Nothing [BADHANDLE MOVED STALE WRONGSEC];
    PUTPUBFH: InSession Mds PutsHandle Nothing [WRONGSEC];
    PUTROOTFH: InSession Mds PutsHandle Nothing [WRONGSEC];
    READ: InSession Both Uses Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO ISDIR
         LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT STALE SYMLINK
         WRONG_TYPE];
    READDIR: InSession Mds Uses Nothing
        [ACCESS BAD_COOKIE FHEXPIRED INVAL IO MOVED NOFILEHANDLE NOTDIR NOT_SAME STALE TOOSMALL];
    READLINK: InSession Mds Uses Nothing
        [ACCESS FHEXPIRED INVAL IO MOVED NOFILEHANDLE STALE WRONG_TYPE];
    REMOVE: InSession Mds Uses Changes
        [ACCESS BADCHAR BADNAME FHEXPIRED FILE_OPEN GRACE INVAL IO MOVED NAMETOOLONG NOENT
         NOFILEHANDLE NOTDIR NOTEMPTY ROFS STALE]
        beyond [PERM: STICKY];
    RENAME: InSession Mds Uses Changes
        [ACCESS BADCHAR BADNAME DQUOT EXIST FHEXPIRED FILE_OPEN GRACE INVAL IO MLINK MOVED
         NAMETOOLONG NOENT NOFILEHANDLE NOSPC NOTDIR NOTEMPTY ROFS STALE WRONGSEC XDEV]
        beyond [PERM: STICKY];
    RENEW: InSession Obsolete Nothing Nothing [];
    RESTOREFH: InSession Both MovesHandle Nothing [FHEXPIRED MOVED NOFILEHANDLE STALE WRONGSEC];
    SAVEFH: InSession Both MovesHandle Nothing [FHEXPIRED MOVED NOFILEHANDLE STALE];
    SECINFO: InSession Mds Security Nothing
        [ACCESS BADCHAR BADNAME FHEXPIRED INVAL MOVED NAMETOOLONG NOENT NOFILEHANDLE NOTDIR STALE];
    SETATTR: InSession Mds Uses Changes
        [ACCESS ADMIN_REVOKED ATTRNOTSUPP BADCHAR BADOWNER BAD_STATEID DELEG_REVOKED DQUOT EXPIRED
         FBIG FHEXPIRED GRACE INVAL IO LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE PERM
         ROFS STALE UNKNOWN_LAYOUTTYPE WRONG_TYPE]
        beyond [NXIO: NOWHERE];
    SETCLIENTID: InSession Obsolete Nothing Nothing [];
    SETCLIENTID_CONFIRM: InSession Obsolete Nothing Nothing [];
    VERIFY: InSession Mds Uses Nothing
        [ACCESS ATTRNOTSUPP BADCHAR FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NOT_SAME STALE
         UNKNOWN_LAYOUTTYPE WRONG_TYPE];
    WRITE: InSession Both Uses Changes
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL
         IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT
         ROFS STALE SYMLINK WRONG_TYPE]
        beyond [NXIO: NOWHERE];
    RELEASE_LOCKOWNER: InSession Obsolete Nothing Nothing [];
    BACKCHANNEL_CTL: InSession Both Nothing Nothing [INVAL NOENT];
    BIND_CONN_TO_SESSION: Alone Both ComesOrGoes Nothing
        [BADSESSION BAD_SESSION_DIGEST INVAL NOT_ONLY_OP]
        beyond [ACCESS: NOT_SERVED];
    EXCHANGE_ID: AloneOrInSession Both ComesOrGoes Nothing
        [BADCHAR CLID_INUSE ENCR_ALG_UNSUPP HASH_ALG_UNSUPP INVAL NOENT NOT_ONLY_OP NOT_SAME]
        beyond [ACCESS: NOT_SERVED, PERM: "RFC 8881 §18.35.4 asks for it in case 8"];
    CREATE_SESSION: AloneOrInSession Both ComesOrGoes Nothing
        [CLID_INUSE INVAL NOENT NOSPC NOT_ONLY_OP SEQ_MISORDERED STALE_CLIENTID TOOSMALL
         WRONG_CRED]
        beyond [ACCESS: NOT_SERVED];
    DESTROY_SESSION: AloneOrInSession Both ComesOrGoes Nothing
        [BACK_CHAN_BUSY BADSESSION CB_PATH_DOWN CONN_NOT_BOUND_TO_SESSION NOT_ONLY_OP
         STALE_CLIENTID WRONG_CRED]
        beyond [ACCESS: NOT_SERVED];
    FREE_STATEID: InSession Mds Nothing Nothing [BAD_STATEID LOCKS_HELD OLD_STATEID WRONG_CRED];
    GET_DIR_DELEGATION: InSession Mds Uses State
        [ACCESS DIRDELEG_UNAVAIL FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NOTDIR STALE];
    GETDEVICEINFO: InSession Mds Nothing Nothing [INVAL NOENT TOOSMALL UNKNOWN_LAYOUTTYPE];
    GETDEVICELIST: InSession Nobody Nothing Nothing
        [BAD_COOKIE FHEXPIRED INVAL IO NOFILEHANDLE NOT_SAME UNKNOWN_LAYOUTTYPE];
    LAYOUTCOMMIT: InSession Mds Uses Nothing
        [ACCESS ADMIN_REVOKED ATTRNOTSUPP BADIOMODE BADLAYOUT DELEG_REVOKED EXPIRED FBIG FHEXPIRED
         GRACE INVAL IO ISDIR MOVED NOFILEHANDLE NO_GRACE RECLAIM_BAD RECLAIM_CONFLICT STALE
         SYMLINK UNKNOWN_LAYOUTTYPE WRONG_CRED];
    LAYOUTGET: InSession Mds Uses Nothing
        [ACCESS ADMIN_REVOKED BADIOMODE BADLAYOUT BAD_STATEID DELEG_REVOKED DQUOT FHEXPIRED GRACE
         INVAL IO LAYOUTTRYLATER LAYOUTUNAVAILABLE LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID
         OPENMODE RECALLCONFLICT STALE TOOSMALL UNKNOWN_LAYOUTTYPE WRONG_TYPE];
    LAYOUTRETURN: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL ISDIR MOVED
         NOFILEHANDLE NO_GRACE OLD_STATEID STALE UNKNOWN_LAYOUTTYPE WRONG_CRED WRONG_TYPE];
    SECINFO_NO_NAME: InSession Mds Security Nothing
        [ACCESS FHEXPIRED INVAL MOVED NOENT NOFILEHANDLE NOTDIR STALE];
    SEQUENCE: First Both Nothing Nothing
        [BADSESSION BADSLOT BAD_HIGH_SLOT CONN_NOT_BOUND_TO_SESSION SEQUENCE_POS SEQ_FALSE_RETRY
         SEQ_MISORDERED];
    SET_SSV: InSession Nobody Nothing Nothing [BAD_SESSION_DIGEST INVAL];
    TEST_STATEID: InSession Both Nothing Nothing [];
    WANT_DELEGATION: InSession Nobody Nothing Nothing
        [DELEG_ALREADY_WANTED FHEXPIRED GRACE INVAL IO MOVED NOFILEHANDLE NO_GRACE RECALLCONFLICT
         RECLAIM_BAD RECLAIM_CONFLICT STALE WRONG_TYPE];
    DESTROY_CLIENTID: AloneOrInSession Both ComesOrGoes Nothing
        [CLIENTID_BUSY NOT_ONLY_OP STALE_CLIENTID WRONG_CRED]
        beyond [ACCESS: NOT_SERVED];
    RECLAIM_COMPLETE: InSession Both Nothing Nothing
        [COMPLETE_ALREADY FHEXPIRED INVAL MOVED NOFILEHANDLE STALE WRONG_CRED WRONG_TYPE];
    ALLOCATE: InSession Mds Uses Changes
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL
         IO ISDIR MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE ROFS STALE SYMLINK WRONG_TYPE]
        beyond [LOCKED: DENIED, NXIO: NOWHERE];
    COPY: InSession Mds Uses Changes
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL
         IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC OFFLOAD_DENIED OLD_STATEID OPENMODE
         PARTNER_NOTSUPP PARTNER_NO_AUTH PNFS_IO_HOLE PNFS_NO_LAYOUT ROFS STALE SYMLINK WRONG_TYPE]
        beyond [NXIO: NOWHERE];
    COPY_NOTIFY: InSession Nobody Nothing Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO ISDIR
         LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT STALE SYMLINK
         WRONG_TYPE];
    DEALLOCATE: InSession Mds Uses Changes
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FBIG FHEXPIRED GRACE INVAL IO
         ISDIR MOVED NOFILEHANDLE OLD_STATEID OPENMODE ROFS STALE SYMLINK WRONG_TYPE]
        beyond [
            LOCKED: DENIED,
            NOSPC: "a hole in the middle of an extent makes two of it",
            NXIO: NOWHERE,
        ];
    IO_ADVISE: InSession Mds Uses Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FBIG FHEXPIRED GRACE INVAL IO
         ISDIR MOVED NOFILEHANDLE OLD_STATEID STALE SYMLINK WRONG_TYPE]
        beyond [LOCKED: DENIED];
    LAYOUTERROR: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL ISDIR MOVED
         NOFILEHANDLE NO_GRACE OLD_STATEID STALE UNKNOWN_LAYOUTTYPE WRONG_CRED WRONG_TYPE];
    LAYOUTSTATS: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL ISDIR MOVED
         NOFILEHANDLE NO_GRACE OLD_STATEID STALE UNKNOWN_LAYOUTTYPE WRONG_CRED WRONG_TYPE];
    OFFLOAD_CANCEL: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID COMPLETE_ALREADY EXPIRED GRACE OLD_STATEID]
        beyond [NOFILEHANDLE: ABOUT_THE_FILE];
    OFFLOAD_STATUS: InSession Mds Nothing Nothing
        [ADMIN_REVOKED BAD_STATEID COMPLETE_ALREADY EXPIRED GRACE OLD_STATEID]
        beyond [NOFILEHANDLE: ABOUT_THE_FILE];
    READ_PLUS: InSession Nobody Nothing Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO ISDIR
         LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PARTNER_NO_AUTH PNFS_IO_HOLE
         PNFS_NO_LAYOUT STALE SYMLINK WRONG_TYPE];
    SEEK: InSession Mds Uses Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED EXPIRED FHEXPIRED GRACE INVAL IO ISDIR
         LOCKED MOVED NOFILEHANDLE OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT STALE SYMLINK
         UNION_NOTSUPP WRONG_TYPE]
        beyond [NXIO: "RFC 7862 §15.11.3 asks for it beyond the end"];
    WRITE_SAME: InSession Nobody Nothing Nothing
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL
         IO ISDIR LOCKED MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE PNFS_IO_HOLE PNFS_NO_LAYOUT
         ROFS STALE SYMLINK WRONG_TYPE];
    CLONE: InSession Mds Uses Changes
        [ACCESS ADMIN_REVOKED BAD_STATEID DELEG_REVOKED DQUOT EXPIRED FBIG FHEXPIRED GRACE INVAL
         IO ISDIR MOVED NOFILEHANDLE NOSPC OLD_STATEID OPENMODE ROFS STALE SYMLINK WRONG_TYPE XDEV]
        beyond [LOCKED: DENIED, NXIO: NOWHERE];
    GETXATTR: InSession Mds Uses Nothing
        [ACCESS FHEXPIRED INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOXATTR PERM STALE WRONG_TYPE];
    SETXATTR: InSession Mds Uses Grows
        [ACCESS BADCHAR DQUOT EXIST FHEXPIRED INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOSPC
         NOXATTR PERM ROFS STALE WRONG_TYPE XATTR2BIG];
    LISTXATTRS: InSession Mds Uses Nothing
        [ACCESS INVAL IO MOVED NAMETOOLONG NOFILEHANDLE NOXATTR PERM STALE WRONG_TYPE]
        beyond [TOOSMALL: "RFC 8276 §8.4.3.3 asks for it"];
    REMOVEXATTR: InSession Mds Uses Changes
        [ACCESS BADCHAR DQUOT EXIST INVAL IO LOCKED MOVED NAMETOOLONG NOFILEHANDLE NOSPC NOXATTR
         OLD_STATEID OPENMODE PERM ROFS STALE WRONG_TYPE];
};

/// Every number has its row, in its place; a new one without a row does not compile.
const _: () = {
    assert!(ROWS.len() + 1 == OpNum::ALL.len(), "an operation has no row, or two");
    let mut at = 0;
    while at < ROWS.len() {
        assert!(ROWS[at].op.0 as usize == FIRST + at, "rows are in the order of the numbers");
        assert!(ROWS[at].op.0 == OpNum::ALL[at].0, "rows are those of the protocol");
        at += 1;
    }
};
