//! The durable record of a client, as the volume keeps it.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use weft_state::GRACE_PARTS;

/// Version of the records in the volume; and of those of clients that were awaited in vain, which
/// have a byte more.
const VERSION: u8 = 2;
const VERSION_WAITED: u8 = 3;

/// Flags of a record: its client's lease was valid; it has lost a delegation.
const AWAITED: u8 = 1;
const LOST_SOME: u8 = 2;

/// Who holds what can be reclaimed after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientRecord {
    /// Its `co_ownerid`.
    pub(crate) ownerid: Bytes,
    /// Address that it connected from.
    pub(crate) address: IpAddr,
    /// Whether a restarted server waits for it: its lease has not passed.
    pub(crate) awaited: bool,
    /// A delegation was revoked from it: others may have changed a file that it believes to be
    /// alone with.
    pub(crate) lost_some: bool,
    /// Parts of a grace period ([`weft_state::GRACE_PARTS`]) in which servers that were restarted
    /// waited for it, and it did not complete its reclaim.
    pub(crate) waited: u8,
}

impl ClientRecord {
    /// As bytes: version, flags, parts that it was awaited in vain if there are any, length of the
    /// address, address, owner.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(4 + 16 + self.ownerid.len());
        out.put_u8(if self.waited == 0 { VERSION } else { VERSION_WAITED });
        let flags = [(self.awaited, AWAITED), (self.lost_some, LOST_SOME)];
        out.put_u8(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
        if self.waited > 0 {
            out.put_u8(self.waited);
        }
        match self.address {
            IpAddr::V4(v4) => {
                out.put_u8(4);
                out.put_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                out.put_u8(16);
                out.put_slice(&v6.octets());
            }
        }
        out.put_slice(&self.ownerid);
        out.freeze()
    }

    /// From bytes that [`ClientRecord::encode`] gave.
    pub(super) fn decode(bytes: &Bytes) -> Option<ClientRecord> {
        let (flags, waited, length, rest) = match &bytes[..] {
            [VERSION, flags @ 0..4, length, rest @ ..] => (flags, 0, length, rest),
            [VERSION_WAITED, flags @ 0..4, waited @ 1..=GRACE_PARTS, length, rest @ ..] => {
                (flags, *waited, length, rest)
            }
            _ => return None,
        };
        let (address, ownerid) = rest.split_at_checked(usize::from(*length))?;
        let address: IpAddr = match address.len() {
            4 => <[u8; 4]>::try_from(address).ok()?.into(),
            16 => <[u8; 16]>::try_from(address).ok()?.into(),
            _ => return None,
        };
        let ownerid = bytes.slice_ref(ownerid);
        let (awaited, lost_some) = (flags & AWAITED != 0, flags & LOST_SOME != 0);
        Some(ClientRecord { ownerid, address, awaited, lost_some, waited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records come back as they were; what is cut short, of another version or with flags of
    /// another time is none.
    #[test]
    fn records_come_back() {
        for (address, awaited, lost_some, waited) in [
            ("192.0.2.7", true, false, 0),
            ("2001:db8::1", false, true, 0),
            ("192.0.2.7", true, true, 0),
            ("192.0.2.7", true, false, 1),
            ("2001:db8::1", false, true, GRACE_PARTS),
        ] {
            let address = address.parse().unwrap();
            let ownerid = Bytes::from_static(b"Linux NFSv4.2 kc12");
            let record = ClientRecord { ownerid, address, awaited, lost_some, waited };
            let bytes = record.encode();
            assert_eq!(ClientRecord::decode(&bytes), Some(record));
            let address_end = bytes.len() - b"Linux NFSv4.2 kc12".len();
            for end in 0..address_end {
                assert_eq!(ClientRecord::decode(&bytes.slice(..end)), None, "{end}");
            }
            let after_waited = usize::from(waited > 0);
            for (at, value) in [(0, 1), (0, 4), (1, 4), (2 + after_waited, 5), (2, 9)] {
                let mut other = bytes.to_vec();
                other[at] = value;
                assert_eq!(ClientRecord::decode(&other.into()), None, "byte {at}");
            }
        }
    }
}
