//! Descriptors of objects over the local socket.

use std::{
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use weft_client::{
    layout::{DataServers, StripeTarget},
    limits,
};
use weft_nfs::DeviceId;

use super::*;

async fn connect(ds: &TestDs) -> UnixStream {
    let socket = std::fs::read_dir(ds.local_sockets()).unwrap().next().unwrap().unwrap().path();
    UnixStream::connect(socket).await.unwrap()
}

/// A connection that has greeted.
async fn greeted(ds: &TestDs) -> UnixStream {
    let mut stream = connect(ds).await;
    stream.write_all(b"weftloc1").await.unwrap();
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"weftloc1");
    let mut owner = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut owner).await.unwrap();
    assert!(owner.starts_with(b"weft:ds:"));
    stream
}

/// The answer to a filehandle.
async fn ask(stream: &mut UnixStream, fh: &[u8]) -> io::Result<Result<std::fs::File, NfsStat>> {
    stream.write_u32(fh.len() as u32).await?;
    stream.write_all(fh).await?;
    let mut status = [0; 4];
    let (bytes, file) = weft_io::receive_descriptor(stream, &mut status).await?;
    if bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(bytes, 4);
    Ok(file.ok_or(NfsStat(u32::from_be_bytes(status))))
}

/// A descriptor is had for a handle that READ would take, is of that object, and cannot be written
/// to; what READ refuses is refused with the same status.
#[tokio::test]
async fn descriptors_are_for_handles_that_may_read() {
    let ds = serving().await;
    let session = session(&ds).await;
    let (one, other) = (file(5), file(6));
    for (file, data) in [(&one, b"the one"), (&other, b"another")] {
        on(&session, &rw(&ds, file), write(0, data, StableHow::UNSTABLE)).await.unwrap();
    }
    let mut local = greeted(&ds).await;
    let read = |file: &File| handle(&ds, file, Rights::READ);
    for (file, data) in [(&one, b"the one"), (&other, b"another")] {
        let object = ask(&mut local, &read(file)).await.unwrap().unwrap();
        let mut seen = [0; 7];
        object.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(&seen, data);
        assert!(weft_io::is_read_only_file(&object).unwrap());
        assert!(object.write_at(b"x", 0).is_err() && object.set_len(0).is_err());
    }
    let elsewhere = File { volume: 4, ..one.clone() };
    let mut forged = read(&one).to_vec();
    forged[20] ^= 1;
    for (fh, refusal) in [
        (&handle(&ds, &one, Rights::WRITE)[..], NfsStat::ACCESS),
        (&forged, NfsStat::BADHANDLE),
        (&[], NfsStat::BADHANDLE),
        (&[7; 128], NfsStat::BADHANDLE),
        (&read(&elsewhere), NfsStat::STALE),
        (&read(&file(7)), NfsStat::NOENT),
    ] {
        assert_eq!(ask(&mut local, fh).await.unwrap().err(), Some(refusal));
    }
    // Fenced: the old handle is refused, the new one is not.
    ds.store().fence(id(&one), ROW).unwrap();
    let fenced = ask(&mut local, &read(&one)).await.unwrap().err();
    assert_eq!(fenced, Some(NfsStat::PNFS_NO_LAYOUT));
    let renewed = File { fence_epoch: ROW, ..one };
    assert!(ask(&mut local, &read(&renewed)).await.unwrap().is_ok());
    ds.store().remove(id(&other)).unwrap();
    let removed = ask(&mut local, &read(&other)).await.unwrap().err();
    assert_eq!(removed, Some(NfsStat::PNFS_NO_LAYOUT));
    // A handle that is newer than the object knows ends older ones here, as READ's does.
    let newer = File { fence_epoch: 3 * ROW, ..renewed.clone() };
    assert!(ask(&mut local, &read(&newer)).await.unwrap().is_ok());
    let older = ask(&mut local, &read(&renewed)).await.unwrap().err();
    assert_eq!(older, Some(NfsStat::PNFS_NO_LAYOUT));
}

/// Who does not keep to the rules is disconnected, and nobody else is.
#[tokio::test]
async fn rules_of_the_local_socket() {
    let ds = serving().await;
    let mut well = greeted(&ds).await;
    let mut nfs = connect(&ds).await;
    nfs.write_all(&[0x80, 0, 0, 40, 0, 0, 0, 1]).await.unwrap();
    assert_eq!(nfs.read(&mut [0; 1]).await.unwrap_or(0), 0);
    let mut long = greeted(&ds).await;
    assert!(ask(&mut long, &[0; 129]).await.is_err());
    // More connections of one user than he may have: closed at once.
    let mut many = Vec::new();
    for _ in 0..70 {
        many.push(connect(&ds).await);
    }
    let mut refused = 0;
    for stream in &mut many {
        let mut byte = [0];
        let closed = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte));
        refused += u32::from(closed.await.is_ok());
    }
    assert_eq!(refused, 70 - 63);
    assert_eq!(ask(&mut well, &[]).await.unwrap().err(), Some(NfsStat::BADHANDLE));
}

/// Our client uses a descriptor no longer than it may: not after a fence and an open, nor, without
/// an open, for longer than a second.
#[tokio::test]
async fn a_fence_ends_the_clients_descriptors() {
    let ds = serving().await;
    let credential = Credential::sys("test", 0, 0, &[]);
    let options = SessionOptions::new(Role::Ds, Bytes::from_static(b"local"), credential);
    let servers = DataServers::new(options).with_local_sockets(ds.local_sockets());
    let file = file(9);
    let target = StripeTarget {
        device: DeviceId([1; 16]),
        server: vec![ds.addr].into(),
        minorversion: None,
        fh: FileHandle(handle(&ds, &file, Rights::READ_WRITE)),
        stateid: None,
    };
    let session = servers.session(&target).await.unwrap();
    let start = Instant::now();
    assert!(servers.local_object(&target, &session, start).await.is_none(), "no object yet");
    on(&session, &target.fh.0, write(0, b"data", StableHow::UNSTABLE)).await.unwrap();
    let object = servers.local_object(&target, &session, start).await.unwrap();
    assert!(object.is_current().unwrap());
    ds.store().fence(id(&file), ROW).unwrap();
    let fenced_at = Instant::now();
    while servers.local_object(&target, &session, start).await.is_some() {
        assert!(fenced_at.elapsed() < 2 * limits::DESCRIPTOR_AGE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let renewed = StripeTarget {
        fh: FileHandle(handle(&ds, &File { fence_epoch: ROW, ..file.clone() }, Rights::READ)),
        ..target.clone()
    };
    let object = servers.local_object(&renewed, &session, start).await.unwrap();
    ds.store().fence(id(&file), 2 * ROW).unwrap();
    assert!(servers.local_object(&renewed, &session, Instant::now()).await.is_none(), "an open");
    assert!(object.is_current().unwrap());
    ds.store().remove(id(&file)).unwrap();
    assert!(!object.is_current().unwrap());
    servers.close().await;
}
