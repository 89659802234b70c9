//! Values of keys that serde has no word for: each is read here, or refused with what it may be.

use std::{fmt::Display, net::SocketAddr, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use weft_mds::{
    data_servers::{AnnouncedAddress, ControlAddress, DATA_SERVER_PORT},
    network::Network,
};
use weft_server::identity::unhex;

use crate::{
    address::{Host, HostPort},
    size::size,
};

/// Stripe units are multiples of this (design D3).
pub(super) const MIB: u64 = 1 << 20;
/// Largest stripe unit, bytes.
const STRIPE_UNIT_MAX: u64 = 64 * MIB;
/// Addresses of one data server: Linux uses at most 16.
const ADDRESSES_MAX: usize = 16;
/// Networks of one rule.
const NETWORKS_MAX: usize = 64;

/// An integer of a range, with the range in the message.
pub(super) fn ranged<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    d: D,
) -> Result<u32, D::Error> {
    let n = i64::deserialize(d)?;
    let inside = u64::try_from(n).ok().filter(|n| (MIN..=MAX).contains(n));
    inside
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| D::Error::custom(format!("{n} is not from {MIN} to {MAX}")))
}

pub(super) fn maybe_ranged<'de, D: Deserializer<'de>, const MIN: u64, const MAX: u64>(
    d: D,
) -> Result<Option<u32>, D::Error> {
    ranged::<D, MIN, MAX>(d).map(Some)
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(d: D) -> Result<T, D::Error> {
    String::deserialize(d)?.parse().map_err(D::Error::custom)
}

/// Where a server listens: an address of this machine, or a name of it.
pub(super) fn listened<'de, D: Deserializer<'de>, const PORT: u16>(
    d: D,
) -> Result<SocketAddr, D::Error> {
    let address: HostPort = parsed(d)?;
    let found = address.resolve(PORT).map_err(D::Error::custom)?;
    found.first().copied().ok_or_else(|| D::Error::custom("it has no address"))
}

pub(super) fn maybe_listened<'de, D: Deserializer<'de>, const PORT: u16>(
    d: D,
) -> Result<Option<SocketAddr>, D::Error> {
    listened::<D, PORT>(d).map(Some)
}

/// Where a data server is reached.
pub(super) fn control<'de, D: Deserializer<'de>>(d: D) -> Result<ControlAddress, D::Error> {
    let HostPort { host, port } = parsed(d)?;
    let port = port.unwrap_or(DATA_SERVER_PORT);
    match host {
        Host::Ip(ip) => Ok(SocketAddr::new(ip, port).into()),
        Host::Name(name) => Ok(ControlAddress::Name(name, port)),
        Host::Any => Err(D::Error::custom("name the data server's machine: \"ds1.example.org\"")),
    }
}

pub(super) fn uuid<'de, D: Deserializer<'de>>(d: D) -> Result<Option<[u8; 16]>, D::Error> {
    let text = String::deserialize(d)?;
    let uuid = unhex(&text).ok_or_else(|| {
        D::Error::custom(format!("{text:?} is not 32 hexadecimal digits, as in DIR/identity"))
    });
    uuid.map(Some)
}

pub(super) fn announced<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Vec<AnnouncedAddress>, D::Error> {
    let all: Vec<String> = at_most(d, ADDRESSES_MAX, "addresses")?;
    let wrong = |text: &String| {
        D::Error::custom(format!(
            "{text:?} is not an address that clients can be told: HOST or HOST:PORT, and the \
             prefix length of a network if only clients of that network use it: \
             \"10.0.0.5:2050/24\", \"ds1.example.org\", \"[2001:db8::5]:2050\""
        ))
    };
    all.iter().map(|text| announced_one(text).ok_or_else(|| wrong(text))).collect()
}

fn announced_one(text: &str) -> Option<AnnouncedAddress> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let HostPort { host, port } = address.parse().ok()?;
    let port = port.unwrap_or(DATA_SERVER_PORT);
    let (at, longest) = match host {
        Host::Ip(ip) => (SocketAddr::new(ip, port).into(), if ip.is_ipv4() { 32 } else { 128 }),
        Host::Name(name) => (ControlAddress::Name(name, port), 128),
        Host::Any => return None,
    };
    let prefix_bits = match prefix {
        Some(bits) => Some(bits.parse().ok().filter(|bits| *bits <= longest)?),
        None => None,
    };
    // Port 0 cannot be connected to.
    (port != 0).then_some(AnnouncedAddress { at, prefix_bits })
}

/// At most `max` of something.
pub(super) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    d: D,
    max: usize,
    what: &str,
) -> Result<Vec<T>, D::Error> {
    let all = Vec::<T>::deserialize(d)?;
    if all.len() > max {
        return Err(D::Error::custom(format!("more than {max} {what}")));
    }
    Ok(all)
}

pub(super) fn networks<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Network>, D::Error> {
    #[derive(Deserialize)]
    struct One(#[serde(deserialize_with = "parsed")] Network);
    let all: Vec<One> = at_most(d, NETWORKS_MAX, "networks")?;
    Ok(all.into_iter().map(|One(n)| n).collect())
}

pub(super) fn domain<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let domain = String::deserialize(d)?;
    if domain.is_empty() || domain.contains('@') {
        return Err(D::Error::custom("a domain is not empty and has no @: \"example.org\""));
    }
    Ok(Some(domain))
}

pub(super) fn stripe_unit<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    size(d)?
        .filter(|b| *b > 0 && b % MIB == 0 && *b <= STRIPE_UNIT_MAX)
        .and_then(|b| u32::try_from(b).ok())
        .ok_or_else(|| D::Error::custom("not a multiple of 1MiB from 1MiB to 64MiB"))
}
