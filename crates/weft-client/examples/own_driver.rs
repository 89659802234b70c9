//! A layout driver of one's own: it makes the plans of another one, and has data servers that are
//! known on several networks spoken to over the one that is preferred.
//!
//! ```text
//! cargo run -p weft-client --example own_driver -- weft://127.0.0.1/ 127.0.0.0/8
//! ```

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use weft_client::{
    fs::{Client, OpenOptions},
    layout::{FilesDriver, IoFailure, LayoutDriver, LayoutError, Plan, StripeTarget},
    url::Url,
};
use weft_nfs::{DeviceId, FileHandle, LayoutType, Stateid, ops::LayoutSegment};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let server = args.next().ok_or("which server? weft://HOST[:PORT]/")?;
    let network = args.next().ok_or("which network? ADDRESS/BITS")?;
    let (address, bits) = network.split_once('/').ok_or("ADDRESS/BITS")?;
    let network = Network { address: address.parse()?, bits: bits.parse()? };
    let (stripes, preferred) = run(&server.parse()?, network).await?;
    println!("{preferred} of {stripes} data servers have an address in that network");
    Ok(())
}

/// Writes a file and reads it through the driver. Returns the number of its stripes, and how many
/// of them lie on data servers with an address in the network.
pub async fn run(server: &Url, network: Network) -> Result<(usize, usize), Box<dyn Error>> {
    let driver = Arc::new(OverNetwork::new(Arc::new(FilesDriver), network));
    // The place of the usual driver for files layouts is taken; flexfiles are still understood.
    let client = Client::builder().driver(driver.clone()).open_url(server).await?;
    client.mkdir_all("/examples", 0o755).await?;

    let access = OpenOptions { read: true, ..OpenOptions::replace(0o644) };
    let file = client.open("/examples/own-driver", access).await?;
    let stripes = file.layout_info().await?.stripes.len();
    file.write_at(0, Bytes::from_static(b"over the network preferred")).await?;
    file.commit().await?;
    let read = file.read_at(0, 100).await?;
    file.close().await?;
    client.remove("/examples/own-driver").await?;
    client.close().await;
    if read != "over the network preferred" {
        return Err("other bytes than were written".into());
    }
    Ok((stripes, driver.preferred.load(Ordering::Relaxed)))
}

/// An IPv4 network.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Any address in it.
    pub address: Ipv4Addr,
    /// How many leading bits its addresses share.
    pub bits: u32,
}

impl Network {
    fn contains(self, addr: &SocketAddr) -> bool {
        let IpAddr::V4(ip) = addr.ip() else { return false };
        let ignored = 32_u32.saturating_sub(self.bits);
        (ip.to_bits() ^ self.address.to_bits()).checked_shr(ignored).unwrap_or(0) == 0
    }
}

/// Another driver, and which addresses of data servers come first in its plans.
#[derive(Debug)]
struct OverNetwork {
    inner: Arc<dyn LayoutDriver>,
    network: Network,
    /// Targets planned that have an address in the network.
    preferred: AtomicUsize,
}

impl OverNetwork {
    fn new(inner: Arc<dyn LayoutDriver>, network: Network) -> OverNetwork {
        OverNetwork { inner, network, preferred: AtomicUsize::new(0) }
    }

    fn with_addresses_in_order(&self, target: &StripeTarget) -> StripeTarget {
        let mut addrs = target.server.to_vec();
        addrs.sort_by_key(|addr| !self.network.contains(addr));
        if addrs.first().is_some_and(|addr| self.network.contains(addr)) {
            self.preferred.fetch_add(1, Ordering::Relaxed);
        }
        StripeTarget { server: addrs.into(), ..target.clone() }
    }
}

impl LayoutDriver for OverNetwork {
    fn layout_type(&self) -> LayoutType {
        self.inner.layout_type()
    }

    fn devices(&self, segment: &LayoutSegment) -> Result<Vec<DeviceId>, LayoutError> {
        self.inner.devices(segment)
    }

    fn plan(
        &self,
        segment: &LayoutSegment,
        devices: &[(DeviceId, Bytes)],
        mds_fh: &FileHandle,
    ) -> Result<Plan, LayoutError> {
        let mut plan = self.inner.plan(segment, devices, mds_fh)?;
        for replicas in &mut plan.stripes {
            *replicas = replicas.map(|target| self.with_addresses_in_order(target));
        }
        Ok(plan)
    }

    fn return_body(&self, stateid: Stateid, failures: &[IoFailure]) -> Bytes {
        self.inner.return_body(stateid, failures)
    }
}
