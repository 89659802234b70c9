//! A link to a real data server, with a registry that others get in the way of.

use std::{
    net::Ipv4Addr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use weft_ds::testing::{TestDs, secret};
use weft_store::{
    objects::{BindRequest, Restoration},
    types::Run,
    volume::{Volume, VolumeConfig},
};

use super::*;
use crate::data_servers::DataServerRegistry;

/// A registry; something happens between what a data server says of the volume and its BIND.
struct Interrupted {
    registry: DataServerRegistry,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    refusals: AtomicUsize,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.registry.fmt(f)
    }
}

impl Admission for Interrupted {
    fn credentials(&self) -> ([u8; 16], ControlKey) {
        self.registry.credentials()
    }

    fn credentials_changed(&self) -> Later<'_, ()> {
        self.registry.credentials_changed()
    }

    fn meet(&self, id: DataServerId, uuid: [u8; 16]) -> Result<VolumeArgs, String> {
        self.registry.meet(id, uuid)
    }

    fn judge(
        &self,
        id: DataServerId,
        uuid: [u8; 16],
        known: &VolumeOk,
    ) -> Later<'_, Result<BindArgs, String>> {
        if let Some(happens) = self.meanwhile.lock().unwrap().take() {
            happens();
        }
        self.registry.judge(id, uuid, known)
    }

    fn refused(&self, id: DataServerId, status: ControlStatus) -> String {
        self.refusals.fetch_add(1, Relaxed);
        self.registry.refused(id, status)
    }

    fn bound<'a>(
        &'a self,
        id: DataServerId,
        known: &'a Met,
        bound: BindOk,
    ) -> Later<'a, Result<(), String>> {
        self.registry.bound(id, known, bound)
    }

    fn expelled(&self, id: DataServerId) {
        self.registry.expelled(id);
    }

    fn lost(&self, id: DataServerId) -> Later<'_, ()> {
        self.registry.lost(id)
    }

    fn lsn(&self) -> u64 {
        self.registry.lsn()
    }

    fn holds(&self, id: DataServerId, lsn: u64) {
        self.registry.holds(id, lsn);
    }
}

/// Links a volume in its second run to a data server that binds, after it was asked what it knows,
/// the first one, or a stranger's; how often it then refused, and whether it was reached.
async fn refusals(is_stranger: bool) -> (usize, bool) {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    drop(DataServerRegistry::open(volume.clone(), &secret()).unwrap());
    let killed = volume.runs().unconfirmed().unwrap().last().unwrap().run;
    let run = if is_stranger { Run { id: [3; 16], ..killed } } else { killed };
    let data_server = TestDs::start(1).await;
    let identity = volume.identity();
    let (ds, lsn) = (data_server.ds().clone(), volume.durable_lsn().0);
    let request = BindRequest {
        number: identity.number,
        uuid: identity.uuid,
        run,
        common: None,
        lsn,
        restored: Restoration::default(),
    };
    let bind = move || drop(ds.store().bind(&request, false).unwrap().unwrap());
    let admission = Arc::new(Interrupted {
        registry: DataServerRegistry::open(volume, &secret()).unwrap(),
        meanwhile: Mutex::new(Some(Box::new(bind))),
        refusals: AtomicUsize::default(),
    });
    let link = ControlLink::start(Expected {
        id: DataServerId(1),
        addr: data_server.addr.into(),
        caller: ServerUuid([9; 16]),
        admission: admission.clone(),
    });
    let is_reached = link.ready().await.is_ok();
    (admission.refusals.load(Relaxed), is_reached)
}

/// A way to a data server that can be closed: what is sent meanwhile arrives when it is open again.
async fn gate(to: SocketAddr) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (address, open) = (listener.local_addr().unwrap(), watch::Sender::new(true));
    let is_open = open.subscribe();
    tokio::spawn(async move {
        while let Ok((caller, _)) = listener.accept().await {
            let (caller, called) = (caller.into_split(), TcpStream::connect(to).await.unwrap());
            let called = called.into_split();
            tokio::spawn(pass((caller.0, called.1), is_open.clone()));
            tokio::spawn(pass((called.0, caller.1), is_open.clone()));
        }
    });
    (address, open)
}

async fn pass(
    (mut from, mut to): (OwnedReadHalf, OwnedWriteHalf),
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let passed = is_open.wait_for(|open| *open).await.is_ok();
        if !passed || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// A data server that falls silent is not up long before its connection is given up; if it answers
/// in time it is up again, over the same connection.
#[tokio::test]
async fn silence_is_noticed_before_the_connection_is_lost() {
    let volume = Volume::in_memory(&VolumeConfig::default()).unwrap();
    let data_server = TestDs::start(1).await;
    let (address, open) = gate(data_server.addr).await;
    let link = ControlLink::start(Expected {
        id: DataServerId(1),
        addr: address.into(),
        caller: ServerUuid([9; 16]),
        admission: Arc::new(DataServerRegistry::open(volume, &secret()).unwrap()),
    });
    link.ready().await.unwrap();
    for _ in 0..2 {
        assert!(link.answers());
        open.send_replace(false);
        timeout(ANSWER_LIMIT + PING_EVERY, link.silent()).await.unwrap();
        assert!(!link.answers());
        open.send_replace(true);
        let up = async {
            while !link.answers() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(ANSWER_LIMIT, up).await.unwrap();
        assert_eq!(link.connections(), 1, "the connection was given up");
    }
}

/// A metadata server that was killed while a data server was about to bind it: the next one is no
/// copy of it, and is not taken for one for a moment. One that is a copy stays refused.
#[tokio::test]
async fn a_bind_of_the_killed_run_is_no_other_state() {
    assert_eq!(refusals(false).await, (0, true));
    let (told, is_reached) = refusals(true).await;
    assert!(told > 0 && !is_reached, "{told} refusals");
}
