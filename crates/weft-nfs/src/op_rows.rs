//! The operations: RFC 8881 §18, RFC 7862 §15, RFC 8276 §8.4. One line an operation, with what the
//! protocol says of it; what a server makes of it is in the server's own table.

/// Hands the rows to the macro `$read`, as
/// `NUMBER = number, minor FIRST, REPEATABLE: Name(Arguments) => Result;` One that no server of
/// ours executes ends after its minor version: its arguments are not read.
macro_rules! op_rows {
    ($read:ident) => {
        $read! {
            ACCESS = 3, minor 0, Always: Access(AccessArgs) => AccessOk;
            CLOSE = 4, minor 0, Never: Close(CloseArgs) => StateidOk;
            COMMIT = 5, minor 0, Always: Commit(CommitArgs) => CommitOk;
            CREATE = 6, minor 0, Never: Create(CreateArgs) => CreateOk;
            DELEGPURGE = 7, minor 0;
            DELEGRETURN = 8, minor 0, Never: Delegreturn(DelegreturnArgs);
            GETATTR = 9, minor 0, Always: Getattr(GetattrArgs) => GetattrOk;
            GETFH = 10, minor 0, Always: Getfh => GetfhOk;
            LINK = 11, minor 0, Never: Link(LinkArgs) => LinkOk;
            LOCK = 12, minor 0, Never: Lock(LockArgs) => StateidOk;
            LOCKT = 13, minor 0, Always: Lockt(LocktArgs);
            LOCKU = 14, minor 0, Never: Locku(LockuArgs) => StateidOk;
            LOOKUP = 15, minor 0, Always: Lookup(LookupArgs);
            LOOKUPP = 16, minor 0, Always: Lookupp;
            NVERIFY = 17, minor 0, Always: Nverify(VerifyArgs);
            OPEN = 18, minor 0, ByArguments: Open(OpenArgs) => OpenOk;
            OPENATTR = 19, minor 0;
            OPEN_CONFIRM = 20, minor 0;
            OPEN_DOWNGRADE = 21, minor 0, Never: OpenDowngrade(OpenDowngradeArgs) => StateidOk;
            PUTFH = 22, minor 0, Always: Putfh(PutfhArgs);
            PUTPUBFH = 23, minor 0, Always: Putpubfh;
            PUTROOTFH = 24, minor 0, Always: Putrootfh;
            READ = 25, minor 0, Always: Read(ReadArgs) => ReadOk;
            READDIR = 26, minor 0, Always: Readdir(ReaddirArgs) => ReaddirOk;
            READLINK = 27, minor 0, Always: Readlink => ReadlinkOk;
            REMOVE = 28, minor 0, Never: Remove(RemoveArgs) => RemoveOk;
            RENAME = 29, minor 0, Never: Rename(RenameArgs) => RenameOk;
            RENEW = 30, minor 0;
            RESTOREFH = 31, minor 0, Always: Restorefh;
            SAVEFH = 32, minor 0, Always: Savefh;
            SECINFO = 33, minor 0, Always: Secinfo(SecinfoArgs) => SecinfoOk;
            SETATTR = 34, minor 0, Always: Setattr(SetattrArgs) => SetattrOk;
            SETCLIENTID = 35, minor 0;
            SETCLIENTID_CONFIRM = 36, minor 0;
            VERIFY = 37, minor 0, Always: Verify(VerifyArgs);
            WRITE = 38, minor 0, Always: Write(WriteArgs) => WriteOk;
            RELEASE_LOCKOWNER = 39, minor 0;
            BACKCHANNEL_CTL = 40, minor 1, Always: BackchannelCtl(BackchannelCtlArgs);
            BIND_CONN_TO_SESSION = 41, minor 1, Always:
                BindConnToSession(BindConnToSessionArgs) => BindConnToSessionOk;
            EXCHANGE_ID = 42, minor 1, Always: ExchangeId(ExchangeIdArgs) => ExchangeIdOk;
            CREATE_SESSION = 43, minor 1, Never:
                CreateSession(CreateSessionArgs) => CreateSessionOk;
            DESTROY_SESSION = 44, minor 1, Never: DestroySession(DestroySessionArgs);
            FREE_STATEID = 45, minor 1, Never: FreeStateid(FreeStateidArgs);
            GET_DIR_DELEGATION = 46, minor 1, Never:
                GetDirDelegation(GetDirDelegationArgs) => GetDirDelegationOk;
            GETDEVICEINFO = 47, minor 1, Always:
                Getdeviceinfo(GetdeviceinfoArgs) => GetdeviceinfoOk;
            GETDEVICELIST = 48, minor 1;
            LAYOUTCOMMIT = 49, minor 1, Always: Layoutcommit(LayoutcommitArgs) => LayoutcommitOk;
            LAYOUTGET = 50, minor 1, Always: Layoutget(LayoutgetArgs) => LayoutgetOk;
            LAYOUTRETURN = 51, minor 1, Always: Layoutreturn(LayoutreturnArgs) => LayoutreturnOk;
            SECINFO_NO_NAME = 52, minor 1, Always: SecinfoNoName(SecinfoNoNameArgs) => SecinfoOk;
            SEQUENCE = 53, minor 1, Always: Sequence(SequenceArgs) => SequenceOk;
            SET_SSV = 54, minor 1;
            TEST_STATEID = 55, minor 1, Always: TestStateid(TestStateidArgs) => TestStateidOk;
            WANT_DELEGATION = 56, minor 1;
            DESTROY_CLIENTID = 57, minor 1, Never: DestroyClientid(DestroyClientidArgs);
            RECLAIM_COMPLETE = 58, minor 1, Always: ReclaimComplete(ReclaimCompleteArgs);
            ALLOCATE = 59, minor 2, Always: Allocate(AllocateArgs);
            COPY = 60, minor 2, Always: Copy(CopyArgs) => CopyOk;
            COPY_NOTIFY = 61, minor 2;
            DEALLOCATE = 62, minor 2, Always: Deallocate(DeallocateArgs);
            IO_ADVISE = 63, minor 2, Always: IoAdvise(IoAdviseArgs) => IoAdviseOk;
            LAYOUTERROR = 64, minor 2, Always: Layouterror(LayouterrorArgs);
            LAYOUTSTATS = 65, minor 2, Always: Layoutstats(LayoutstatsArgs);
            OFFLOAD_CANCEL = 66, minor 2, Always: OffloadCancel(OffloadCancelArgs);
            OFFLOAD_STATUS = 67, minor 2, Always:
                OffloadStatus(OffloadStatusArgs) => OffloadStatusOk;
            READ_PLUS = 68, minor 2;
            SEEK = 69, minor 2, Always: Seek(SeekArgs) => SeekOk;
            WRITE_SAME = 70, minor 2;
            CLONE = 71, minor 2, Always: Clone(CloneArgs);
            GETXATTR = 72, minor 2, Always: Getxattr(GetxattrArgs) => GetxattrOk;
            SETXATTR = 73, minor 2, ByArguments: Setxattr(SetxattrArgs) => XattrChanged;
            LISTXATTRS = 74, minor 2, Always: Listxattrs(ListxattrsArgs) => ListxattrsOk;
            REMOVEXATTR = 75, minor 2, Never: Removexattr(RemovexattrArgs) => XattrChanged;
        }
    };
}

pub(crate) use op_rows;
