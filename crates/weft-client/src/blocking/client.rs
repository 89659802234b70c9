//! A client whose calls wait.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use weft_nfs::Attrs;

use super::{
    dir::ReadDir,
    file::File,
    runtime::{self, Ours},
};
use crate::{
    error::ClientError,
    fs::{self, ClientBuilder, ClientOptions, FsError, OpenOptions, error::At},
    url::Url,
};

/// [`fs::Client`] for programs without a runtime. May be shared by threads.
pub struct Client(Ours<fs::Client>);

impl Client {
    /// [`fs::Client::connect`].
    ///
    /// # Errors
    /// As there; [`ClientError::WouldStopRuntime`].
    pub fn connect(server: SocketAddr, options: ClientOptions) -> Result<Client, ClientError> {
        runtime::make(fs::Client::connect(server, options)).map(Client)
    }

    /// [`fs::Client::open_url`].
    ///
    /// # Errors
    /// As there; [`ClientError::WouldStopRuntime`].
    pub fn open_url(url: &Url) -> Result<Client, ClientError> {
        Client::open_url_with(ClientBuilder::default(), url)
    }

    /// [`ClientBuilder::open_url`].
    ///
    /// # Errors
    /// As there; [`ClientError::WouldStopRuntime`].
    pub fn open_url_with(builder: ClientBuilder, url: &Url) -> Result<Client, ClientError> {
        runtime::make(builder.open_url(url)).map(Client)
    }

    /// Waits for whatever the async client does, for what is not offered here.
    ///
    /// # Errors
    /// [`ClientError::Forked`], [`ClientError::WouldStopRuntime`].
    pub fn wait<'a, F: Future>(
        &'a self,
        work: impl FnOnce(&'a fs::Client) -> F,
    ) -> Result<F::Output, ClientError> {
        self.0.wait(work)
    }

    fn at<'a, T, F>(
        &'a self,
        path: &Path,
        work: impl FnOnce(&'a fs::Client) -> F,
    ) -> Result<T, FsError>
    where
        F: Future<Output = Result<T, FsError>>,
    {
        self.0.wait(work).at(path)?
    }

    /// [`fs::Client::open`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn open(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File, FsError> {
        let path = path.as_ref();
        let file = self.at(path, |c| c.open(path, options))?;
        let file = Ours::new(self.0.waiter().clone(), file);
        Ok(File::new(file, path.to_path_buf(), options.write))
    }

    /// [`fs::Client::open_with_layout`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn open_with_layout(
        &self,
        path: impl AsRef<Path>,
        options: OpenOptions,
        layout: &Bytes,
    ) -> Result<File, FsError> {
        let path = path.as_ref();
        let file = self.at(path, |c| c.open_with_layout(path, options, layout))?;
        let file = Ours::new(self.0.waiter().clone(), file);
        Ok(File::new(file, path.to_path_buf(), false))
    }

    /// [`fs::Client::stat`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<Attrs, FsError> {
        self.at(path.as_ref(), |c| c.stat(path.as_ref()))
    }

    /// [`fs::Client::stat_followed`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn stat_followed(&self, path: impl AsRef<Path>) -> Result<Attrs, FsError> {
        self.at(path.as_ref(), |c| c.stat_followed(path.as_ref()))
    }

    /// [`fs::Client::read_dir`]; its entries come page by page.
    ///
    /// # Errors
    /// [`FsError`].
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<ReadDir, FsError> {
        let path = path.as_ref();
        let entries = self.at(path, |c| c.read_dir(path))?;
        Ok(ReadDir::new(Ours::new(self.0.waiter().clone(), entries), path.to_path_buf()))
    }

    /// [`fs::Client::mkdir`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn mkdir(&self, path: impl AsRef<Path>, mode: u32) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.mkdir(path.as_ref(), mode))
    }

    /// [`fs::Client::mkdir_all`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn mkdir_all(&self, path: impl AsRef<Path>, mode: u32) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.mkdir_all(path.as_ref(), mode))
    }

    /// [`fs::Client::symlink`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.symlink(target.as_ref(), path.as_ref()))
    }

    /// [`fs::Client::readlink`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn readlink(&self, path: impl AsRef<Path>) -> Result<PathBuf, FsError> {
        self.at(path.as_ref(), |c| c.readlink(path.as_ref()))
    }

    /// [`fs::Client::remove`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.remove(path.as_ref()))
    }

    /// [`fs::Client::rename`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FsError> {
        self.at(from.as_ref(), |c| c.rename(from.as_ref(), to.as_ref()))
    }

    /// [`fs::Client::set_attrs`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn set_attrs(&self, path: impl AsRef<Path>, attrs: Attrs) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.set_attrs(path.as_ref(), attrs))
    }

    /// [`fs::Client::read_file`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn read_file(&self, path: impl AsRef<Path>, len_max: usize) -> Result<Bytes, FsError> {
        self.at(path.as_ref(), |c| c.read_file(path.as_ref(), len_max))
    }

    /// [`fs::Client::write_file`].
    ///
    /// # Errors
    /// [`FsError`].
    pub fn write_file(
        &self,
        path: impl AsRef<Path>,
        mode: u32,
        data: Bytes,
    ) -> Result<(), FsError> {
        self.at(path.as_ref(), |c| c.write_file(path.as_ref(), mode, data))
    }

    /// [`fs::Client::close`].
    ///
    /// # Errors
    /// [`ClientError::Forked`], [`ClientError::WouldStopRuntime`].
    pub fn close(self) -> Result<(), ClientError> {
        self.0.end(fs::Client::close)
    }
}
