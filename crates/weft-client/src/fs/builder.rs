//! A client made step by step, or from a URL.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::client::{Client, ClientOptions};
use crate::{
    core::Backoff,
    error::ClientError,
    identity::Identity,
    io::IoPolicy,
    layout::LayoutDriver,
    limits,
    rpc::Credential,
    url::{Host, LocalSockets, Url, UrlOptions},
    waiting::OnWait,
};

/// What a client is made from: [`ClientOptions`] by names, then a server.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use weft_client::fs::Client;
///
/// let builder = Client::builder().slots(128).layouts(false);
/// let client = builder.open_url(&"weft://fs.example.org/".parse()?).await?;
/// # client.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct ClientBuilder {
    options: ClientOptions,
}

impl From<ClientOptions> for ClientBuilder {
    fn from(options: ClientOptions) -> ClientBuilder {
        ClientBuilder { options }
    }
}

impl ClientBuilder {
    /// [`ClientOptions::minorversion`].
    pub fn minorversion(mut self, minorversion: u32) -> ClientBuilder {
        self.options.minorversion = minorversion;
        self
    }

    /// [`ClientOptions::credential`].
    pub fn credential(mut self, credential: Credential) -> ClientBuilder {
        self.options.credential = credential;
        self
    }

    /// [`ClientOptions::slots`].
    pub fn slots(mut self, slots: u32) -> ClientBuilder {
        self.options.slots = slots;
        self
    }

    /// [`ClientOptions::patience`].
    pub fn patience(mut self, patience: Duration) -> ClientBuilder {
        self.options.patience = patience;
        self
    }

    /// [`ClientOptions::data_server_patience`].
    pub fn data_server_patience(mut self, patience: Duration) -> ClientBuilder {
        self.options.data_server_patience = patience;
        self
    }

    /// [`ClientOptions::layouts`].
    pub fn layouts(mut self, layouts: bool) -> ClientBuilder {
        self.options.layouts = layouts;
        self
    }

    /// A layout driver of one's own, beside those for files and flexfiles and any others given. It
    /// is preferred to all given before, and takes the place of the one of its type: there is one
    /// for each, so that what it refuses goes through the metadata server, not through another.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use weft_client::{fs::Client, layout::FilesDriver};
    ///
    /// let builder = Client::builder().driver(Arc::new(FilesDriver)); // now before flexfiles
    /// ```
    pub fn driver(mut self, driver: Arc<dyn LayoutDriver>) -> ClientBuilder {
        let drivers = &mut self.options.drivers;
        drivers.retain(|other| other.layout_type() != driver.layout_type());
        drivers.insert(0, driver);
        self
    }

    /// [`ClientOptions::eager`].
    pub fn eager(mut self, eager: bool) -> ClientBuilder {
        self.options.eager = eager;
        self
    }

    /// [`ClientOptions::policy`].
    pub fn policy(mut self, policy: IoPolicy) -> ClientBuilder {
        self.options.policy = policy;
        self
    }

    /// [`ClientOptions::delegations`].
    pub fn delegations(mut self, delegations: bool) -> ClientBuilder {
        self.options.delegations = delegations;
        self
    }

    /// [`ClientOptions::local_sockets`].
    pub fn local_sockets(mut self, dir: Option<PathBuf>) -> ClientBuilder {
        self.options.local_sockets = dir;
        self
    }

    /// [`ClientOptions::identity`].
    pub fn identity(mut self, identity: Identity) -> ClientBuilder {
        self.options.identity = Some(identity);
        self
    }

    /// [`ClientOptions::on_wait`].
    pub fn on_wait(mut self, on_wait: OnWait) -> ClientBuilder {
        self.options.on_wait = Some(on_wait);
        self
    }

    /// What was said so far, and what is usual.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// What the options of a URL say takes the place of what was said before.
    pub fn url_options(mut self, said: &UrlOptions) -> ClientBuilder {
        let o = &mut self.options;
        o.minorversion = said.minorversion.unwrap_or(o.minorversion);
        o.layouts = said.layouts.unwrap_or(o.layouts);
        o.eager = said.eager.unwrap_or(o.eager);
        o.slots = said.slots.unwrap_or(o.slots);
        o.delegations = said.delegations.unwrap_or(o.delegations);
        o.patience = said.patience.unwrap_or(o.patience);
        o.data_server_patience = said.data_server_patience.unwrap_or(o.data_server_patience);
        match &said.local {
            Some(LocalSockets::Off) => o.local_sockets = None,
            Some(LocalSockets::In(dir)) => o.local_sockets = Some(dir.clone()),
            None => {}
        }
        let policy = match said.cache {
            Some(true) => IoPolicy::default(),
            Some(false) => IoPolicy::direct(),
            None => o.policy,
        };
        o.policy = IoPolicy {
            gather_below: said.gather_below.unwrap_or(policy.gather_below),
            keeps: policy.keeps,
            read_ahead_bytes: said.read_ahead.unwrap_or(policy.read_ahead_bytes),
            cache_bytes: said.cache_bytes.unwrap_or(policy.cache_bytes),
        };
        self
    }

    /// Connects to a metadata server.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect(self, server: SocketAddr) -> Result<Client, ClientError> {
        Client::connect(server, self.options).await
    }

    /// Connects to the server of a URL, with its options; its path is for whoever opens files. Of a
    /// host with several addresses the first that takes a connection is used.
    ///
    /// # Errors
    /// [`ClientError::NoSuchHost`]; [`ClientError::NoAddressAnswers`] after the patience; as
    /// [`Client::connect`].
    pub async fn open_url(self, url: &Url) -> Result<Client, ClientError> {
        let builder = self.url_options(&url.options);
        let server = match &url.host {
            Host::Ip(ip) => SocketAddr::new(*ip, url.port),
            Host::Name(name) => reach(name, url.port, builder.options.patience).await?,
        };
        builder.connect(server).await
    }
}

impl Client {
    /// A client made step by step.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client of the server of a URL, with its options and otherwise usual ones.
    ///
    /// # Errors
    /// As [`ClientBuilder::open_url`].
    pub async fn open_url(url: &Url) -> Result<Client, ClientError> {
        Client::builder().open_url(url).await
    }
}

/// An address of a host that takes connections. A lone one is not tried: whoever connects to it
/// says better what is wrong.
async fn reach(name: &str, port: u16, patience: Duration) -> Result<SocketAddr, ClientError> {
    let no_such = |why: String| ClientError::NoSuchHost { name: name.into(), why: why.into() };
    let found = tokio::net::lookup_host((name, port)).await.map_err(|e| no_such(e.to_string()))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses[..] {
        [] => Err(no_such("it has no address".into())),
        [only] => Ok(only),
        _ => first_that_answers(name, &addresses, patience).await,
    }
}

async fn first_that_answers(
    name: &str,
    addresses: &[SocketAddr],
    patience: Duration,
) -> Result<SocketAddr, ClientError> {
    let (deadline, mut backoff) = (Instant::now() + patience, Backoff::new(patience));
    loop {
        let mut said = Vec::new();
        for address in addresses {
            let dialled = tokio::net::TcpStream::connect(address);
            match tokio::time::timeout(limits::CONNECT_TIMEOUT, dialled).await {
                Ok(Ok(_)) => return Ok(*address),
                Ok(Err(e)) => said.push(format!("{address}: {e}")),
                Err(_) => said.push(format!("{address}: no answer")),
            }
        }
        let Some(wait) = backoff.next_wait().filter(|_| Instant::now() < deadline) else {
            let (name, why) = (name.into(), Arc::from(said.join(", ")));
            return Err(ClientError::NoAddressAnswers { name, why });
        };
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use weft_nfs::LayoutType;

    use super::*;
    use crate::layout::{FilesDriver, FlexFilesDriver};

    /// What a URL says takes the place of what was said before; the rest stays.
    #[test]
    fn a_url_has_the_last_word() {
        let said = "slots=7&layouts=false&cache=false&gather_below=512&patience=2&local=off";
        let said = said.parse().unwrap();
        let builder = Client::builder().slots(9).eager(false).minorversion(1).url_options(&said);
        let o = builder.options;
        assert_eq!((o.slots, o.layouts, o.eager, o.minorversion), (7, false, false, 1));
        assert_eq!(o.policy, IoPolicy::gathering(512));
        assert_eq!(o.local_sockets, None);
        assert_eq!(o.patience, Duration::from_secs(2));
    }

    /// A driver comes before all others, and instead of the one of its type.
    #[test]
    fn there_is_one_driver_for_a_type() {
        let types = |builder: ClientBuilder| {
            let drivers = builder.options.drivers.iter();
            drivers.map(|d| d.layout_type()).collect::<Vec<_>>()
        };
        let both = [LayoutType::FLEX_FILES, LayoutType::NFSV4_1_FILES];
        assert_eq!(types(Client::builder()), both);
        let files = Client::builder().driver(Arc::new(FilesDriver));
        assert_eq!(types(files.clone()), [both[1], both[0]]);
        assert_eq!(types(files.driver(Arc::new(FlexFilesDriver))), both);
    }

    /// Of several addresses the one that answers is found; if none does, each is named.
    #[tokio::test]
    async fn each_address_is_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let gone = SocketAddr::from(([127, 0, 0, 1], 1));
        let found = first_that_answers("h", &[gone, there], Duration::ZERO).await.unwrap();
        assert_eq!(found, there);
        let none = first_that_answers("h", &[gone], Duration::ZERO).await.unwrap_err().to_string();
        assert!(none.contains("h") && none.contains("127.0.0.1:1"), "{none}");
    }

    /// A host that nobody knows is named.
    #[tokio::test]
    async fn an_unknown_host_is_named() {
        let url = "weft://no-such-host.invalid/".parse().unwrap();
        let Err(e) = Client::open_url(&url).await else { panic!("it was found") };
        assert!(e.to_string().contains("no-such-host.invalid"), "{e}");
    }
}
