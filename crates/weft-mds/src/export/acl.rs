//! Access control lists between the wire and the volume (RFC 8881 §6.2): whom entries are about,
//! and which say what would not be kept to. What they mean is the volume's
//! (`weft_store::types::Acl`).

use std::time::Duration;

use bytes::Bytes;
use weft_nfs::{Ace, AceType, Failure, NfsStat, Opaque, ace_flag, ace_mask};
use weft_store::types::{ACL_ENTRIES_MAX, Acl, AclEntry, BadAcl, Who, entry_flag, right};

use super::names::Names;

const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";

/// Flags about audits (§6.2.1.4.1), of which there are none.
const OF_AUDITS: u32 = ace_flag::SUCCESSFUL_ACCESS | ace_flag::FAILED_ACCESS;
/// Whom an entry is about is a group.
const GROUP_FLAG: u32 = ace_flag::IDENTIFIER_GROUP;
/// Retention is not supported, so that nobody can be allowed it.
const RETENTION: u32 = ace_mask::WRITE_RETENTION | ace_mask::WRITE_RETENTION_HOLD;

/// Fewest bytes of an entry on the wire: type, flags, mask, and a name of one to four letters.
pub(crate) const ACE_BYTES_MIN: usize = 20;

// The volume knows these bits by the numbers of the wire.
const _: () = assert!(right::ALL == ace_mask::ALL & !RETENTION);
const _: () = assert!(entry_flag::ALL as u32 == ace_flag::ALL & !OF_AUDITS & !ace_flag::INHERITED);

/// Which of the two attributes a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `acl`
    Plain,
    /// `dacl`
    Discretionary,
}

/// Longest time that names of one list are asked for.
const ASKED_FOR_MAX: Duration = Duration::from_secs(5);

/// A list as clients are told it.
pub(crate) fn to_wire(entries: &[AclEntry], names: &Names) -> Vec<Ace> {
    let ace = |entry: &AclEntry| Ace {
        acetype: if entry.allows { AceType::ALLOW } else { AceType::DENY },
        // Others say of GROUP@ that it is a group, and what users compare with has it.
        flag: u32::from(entry.flags) | if entry.who == Who::Group { GROUP_FLAG } else { 0 },
        access_mask: entry.mask,
        who: match entry.who {
            Who::Owner => Opaque(Bytes::from_static(OWNER)),
            Who::Group => Opaque(Bytes::from_static(GROUP)),
            Who::Everyone => Opaque(Bytes::from_static(EVERYONE)),
            Who::User(uid) => names.user(uid),
            Who::Members(gid) => names.group(gid),
        },
    };
    entries.iter().map(ace).collect()
}

/// A list that a client sets. What cannot be denied is taken out of denials, as users' tools deny
/// whole classes of rights with it.
///
/// # Errors
/// NOSPC for more entries than are kept; INVAL for bits that do not exist; ATTRNOTSUPP for what
/// would not be kept to here; BADOWNER for whom nobody knows, and DELAY while that cannot be told.
pub(crate) async fn from_wire(aces: &[Ace], form: Form, names: &Names) -> Result<Acl, Failure> {
    if aces.len() > ACL_ENTRIES_MAX {
        return Err(NfsStat::NOSPC.into());
    }
    // Nobody is asked for names in vain.
    aces.iter().try_for_each(|ace| check(ace, form))?;
    let entries = tokio::time::timeout(ASKED_FOR_MAX, entries(aces, names)).await;
    let entries = entries.map_err(|_| NfsStat::DELAY)??;
    Acl::new(entries).map_err(|bad| match bad {
        BadAcl::TooLong => NfsStat::NOSPC.into(),
        BadAcl::UnknownBits => NfsStat::INVAL.into(),
    })
}

async fn entries(aces: &[Ace], names: &Names) -> Result<Vec<AclEntry>, Failure> {
    let mut entries = Vec::with_capacity(aces.len());
    for ace in aces {
        let (who, allows) = (who(ace, names).await?, ace.acetype == AceType::ALLOW);
        let undeniable = match who {
            _ if allows => 0,
            Who::Owner => right::ALWAYS | right::WRITE_ACL,
            _ => right::ALWAYS,
        };
        // §6.2.1.4.1: INHERITED is in no `acl`, and there is no automatic inheritance here; of
        // special identifiers it says nothing that they are groups.
        let ignored = match who {
            Who::Members(_) => ace_flag::INHERITED,
            _ => ace_flag::INHERITED | GROUP_FLAG,
        };
        let flags = u8::try_from(ace.flag & !ignored).map_err(|_| NfsStat::INVAL)?;
        let mask = ace.access_mask & !undeniable;
        if mask != 0 || allows {
            entries.push(AclEntry { allows, flags, mask, who });
        }
    }
    Ok(entries)
}

/// One entry by itself: what is accepted is kept to.
fn check(ace: &Ace, form: Form) -> Result<(), NfsStat> {
    let known = ace.access_mask & !ace_mask::ALL == 0 && ace.flag & !ace_flag::ALL == 0;
    if !known || ace.acetype > AceType::ALARM {
        return Err(NfsStat::INVAL);
    }
    let audits = ace.acetype > AceType::DENY || ace.flag & OF_AUDITS != 0;
    let inherited = form == Form::Discretionary && ace.flag & ace_flag::INHERITED != 0;
    match audits || inherited || ace.access_mask & RETENTION != 0 {
        true => Err(NfsStat::ATTRNOTSUPP),
        false => Ok(()),
    }
}

/// Whom an entry is about.
async fn who(ace: &Ace, names: &Names) -> Result<Who, Failure> {
    match &ace.who.0[..] {
        OWNER => Ok(Who::Owner),
        GROUP => Ok(Who::Group),
        EVERYONE => Ok(Who::Everyone),
        _ if ace.flag & GROUP_FLAG != 0 => Ok(Who::Members(names.group_id(&ace.who).await?)),
        _ => Ok(Who::User(names.user_id(&ace.who).await?)),
    }
}

#[cfg(test)]
mod tests;
