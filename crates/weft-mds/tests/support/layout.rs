//! Layouts granted, and the data servers they lead to.

use weft_layout::FilesLayout;
use weft_nfs::FileHandle;

use super::{Client, ClientOptions, Cluster, Reply};

/// The files layout of a LAYOUTGET's reply: one segment.
pub fn files_layout(reply: &Reply) -> FilesLayout {
    let layout = reply.layout();
    let [segment] = &layout.layout[..] else { panic!("{layout:?}") };
    weft_xdr::from_bytes(segment.body.0.clone()).unwrap()
}

/// A client of a data server, for direct I/O.
pub async fn on_data_server(cluster: &Cluster, index: usize, owner: &str) -> Client {
    let mut options = ClientOptions::new(owner);
    options.back_channel = false;
    options.reclaim_complete = false;
    Client::with(cluster.data_server(index), options).await
}

/// The filehandle of one of its data servers.
pub fn layout_handle(layout: &FilesLayout, index: usize) -> FileHandle {
    FileHandle(layout.filehandles[index].clone())
}
