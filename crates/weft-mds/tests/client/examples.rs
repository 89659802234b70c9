//! The examples of the client library do what they say, with a metadata server and data servers in
//! this process.

#[allow(dead_code, reason = "main is for cargo run")]
#[path = "../../../weft-client/examples/gathered_writes.rs"]
mod gathered_writes;
#[allow(dead_code, reason = "main is for cargo run")]
#[path = "../../../weft-client/examples/list.rs"]
mod list;
#[allow(dead_code, reason = "main is for cargo run")]
#[path = "../../../weft-client/examples/own_driver.rs"]
mod own_driver;
#[allow(dead_code, reason = "main is for cargo run")]
#[path = "../../../weft-client/examples/put_and_get.rs"]
mod put_and_get;
#[allow(dead_code, reason = "main is for cargo run")]
#[path = "../../../weft-client/examples/striped_write.rs"]
mod striped_write;

use crate::support::Cluster;

const DATA_SERVERS: u32 = 3;

/// Each runs to its end, and returns what is said above it; the list then shows their files.
#[tokio::test]
async fn examples_do_what_they_say() {
    let cluster = Cluster::striped(DATA_SERVERS).await;
    let server = cluster.address();
    assert_eq!(put_and_get::run(server).await.unwrap(), "Hello, world.");
    assert_eq!(gathered_writes::run(server, 1000).await.unwrap(), "record 999");
    let (servers, bytes) = striped_write::run(server).await.unwrap();
    assert_eq!(servers, DATA_SERVERS as usize);
    assert!(bytes > 0 && bytes % u64::from(2 * DATA_SERVERS) == 0, "{bytes}");
    let stripes = DATA_SERVERS as usize;
    let url = format!("weft://{server}/").parse().unwrap();
    for (address, preferred) in [([127, 0, 0, 0], stripes), ([10, 0, 0, 0], 0)] {
        let network = own_driver::Network { address: address.into(), bits: 8 };
        assert_eq!(own_driver::run(&url, network).await.unwrap(), (stripes, preferred));
    }
    let mut lines = list::run(server, "/examples").await.unwrap();
    lines.sort_by_key(|line| line.split_whitespace().last().map(String::from));
    let greeting = format!("0644 {:>10} greeting", 13);
    let striped = format!("0644 {bytes:>10} striped");
    assert_eq!([&lines[0], &lines[2]], [&greeting, &striped], "{lines:?}");
    assert_eq!(lines.len(), 3);
}
