//! Options of URLs: those of a client that can be said in a word.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use super::error::{NAMES, UrlError};
use crate::limits::{SLOTS_MAX, URL_CACHE_BYTES_MAX, URL_SECONDS_MAX};

/// Options that a URL gave; what it did not say stays as whoever connects has it. Their meaning is
/// that of the fields of [`crate::fs::ClientOptions`] and [`crate::io::IoPolicy`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UrlOptions {
    /// 1 or 2.
    pub minorversion: Option<u32>,
    /// `true` or `false`.
    pub layouts: Option<bool>,
    /// `true` or `false`.
    pub eager: Option<bool>,
    /// From 1 to [`SLOTS_MAX`].
    pub slots: Option<u32>,
    /// In seconds, with a fraction if need be.
    pub patience: Option<Duration>,
    /// In seconds, with a fraction if need be.
    pub data_server_patience: Option<Duration>,
    /// `false`: [`crate::io::IoPolicy::direct`], but for what else is said.
    pub cache: Option<bool>,
    /// In bytes.
    pub cache_bytes: Option<u64>,
    /// In bytes.
    pub gather_below: Option<u32>,
    /// In bytes.
    pub read_ahead: Option<u32>,
    /// `true` or `false`.
    pub delegations: Option<bool>,
    /// `off`, or a directory: [`crate::fs::ClientOptions::local_sockets`].
    pub local: Option<LocalSockets>,
}

/// Where data servers of this host have their sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalSockets {
    /// They are not looked for.
    Off,
    /// In this directory.
    In(PathBuf),
}

impl UrlOptions {
    /// Sets an option by its name.
    ///
    /// # Errors
    /// [`UrlError`]: there is none of this name, it was set before, or it does not take the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), UrlError> {
        match name {
            "minorversion" => set(&mut self.minorversion, NAMES[0], value, version),
            "layouts" => set(&mut self.layouts, NAMES[1], value, truth),
            "eager" => set(&mut self.eager, NAMES[2], value, truth),
            "slots" => set(&mut self.slots, NAMES[3], value, slots),
            "patience" => set(&mut self.patience, NAMES[4], value, seconds),
            "data_server_patience" => set(&mut self.data_server_patience, NAMES[5], value, seconds),
            "cache" => set(&mut self.cache, NAMES[6], value, truth),
            "cache_bytes" => set(&mut self.cache_bytes, NAMES[7], value, memory),
            "gather_below" => set(&mut self.gather_below, NAMES[8], value, bytes),
            "read_ahead" => set(&mut self.read_ahead, NAMES[9], value, bytes),
            "delegations" => set(&mut self.delegations, NAMES[10], value, truth),
            "local" => set(&mut self.local, NAMES[11], value, local),
            other => Err(UrlError::UnknownOption(other.into())),
        }
    }

    /// Sets an option by its name, in place of what it was.
    ///
    /// # Errors
    /// [`UrlError`]: there is none of this name, or it does not take the value.
    pub fn replace(&mut self, name: &str, value: &str) -> Result<(), UrlError> {
        let mut said = UrlOptions::default();
        said.set(name, value)?;
        let before = std::mem::take(self);
        *self = UrlOptions {
            minorversion: said.minorversion.or(before.minorversion),
            layouts: said.layouts.or(before.layouts),
            eager: said.eager.or(before.eager),
            slots: said.slots.or(before.slots),
            patience: said.patience.or(before.patience),
            data_server_patience: said.data_server_patience.or(before.data_server_patience),
            cache: said.cache.or(before.cache),
            cache_bytes: said.cache_bytes.or(before.cache_bytes),
            gather_below: said.gather_below.or(before.gather_below),
            read_ahead: said.read_ahead.or(before.read_ahead),
            delegations: said.delegations.or(before.delegations),
            local: said.local.or(before.local),
        };
        Ok(())
    }

    /// Name and value of those that are set, in the order of [`NAMES`].
    fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let seconds = |d: Duration| d.as_secs_f64().to_string();
        let values = [
            self.minorversion.map(|v| v.to_string()),
            self.layouts.map(|v| v.to_string()),
            self.eager.map(|v| v.to_string()),
            self.slots.map(|v| v.to_string()),
            self.patience.map(seconds),
            self.data_server_patience.map(seconds),
            self.cache.map(|v| v.to_string()),
            self.cache_bytes.map(|v| v.to_string()),
            self.gather_below.map(|v| v.to_string()),
            self.read_ahead.map(|v| v.to_string()),
            self.delegations.map(|v| v.to_string()),
            self.local.as_ref().map(|local| match local {
                LocalSockets::Off => OFF.to_owned(),
                LocalSockets::In(dir) => dir.display().to_string(),
            }),
        ];
        NAMES.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
    }
}

impl FromStr for UrlOptions {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<UrlOptions, UrlError> {
        let mut options = UrlOptions::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(UrlError::NoValue(pair.into()))?;
            options.set(name, value)?;
        }
        Ok(options)
    }
}

impl fmt::Display for UrlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.pairs().enumerate() {
            let between = if index == 0 { "" } else { "&" };
            write!(f, "{between}{name}={value}")?;
        }
        Ok(())
    }
}

/// A value read, or what should have been written.
type Read<T> = Result<T, &'static str>;

fn set<T>(
    to: &mut Option<T>,
    option: &'static str,
    value: &str,
    read: fn(&str) -> Read<T>,
) -> Result<(), UrlError> {
    if to.is_some() {
        return Err(UrlError::Twice(option.into()));
    }
    let wrong = |wanted| UrlError::Value { option, value: value.into(), wanted };
    *to = Some(read(value).map_err(wrong)?);
    Ok(())
}

/// What a URL says for none.
const OFF: &str = "off";

/// A path goes into a URL as it is: `&`, which would end it, is not for it.
fn local(value: &str) -> Read<LocalSockets> {
    match value {
        OFF => Ok(LocalSockets::Off),
        dir if dir.starts_with('/') => Ok(LocalSockets::In(dir.into())),
        _ => Err("off, or a directory such as /run/weft-local"),
    }
}

fn version(value: &str) -> Read<u32> {
    match value {
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err("1 or 2, for NFSv4.1 or 4.2"),
    }
}

fn truth(value: &str) -> Read<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false"),
    }
}

fn slots(value: &str) -> Read<u32> {
    let number = value.parse().ok().filter(|n| (1..=SLOTS_MAX).contains(n));
    number.ok_or("a number from 1 to 256")
}

fn seconds(value: &str) -> Read<Duration> {
    let number = value.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    let within = number.filter(|d| *d <= Duration::from_secs(URL_SECONDS_MAX));
    within.ok_or("seconds from 0 to 86400, such as 30 or 0.5")
}

fn bytes(value: &str) -> Read<u32> {
    value.parse().map_err(|_| "a number of bytes up to 4294967295")
}

fn memory(value: &str) -> Read<u64> {
    let number = value.parse().ok().filter(|n| *n <= URL_CACHE_BYTES_MAX);
    number.ok_or("a number of bytes up to 1099511627776")
}
