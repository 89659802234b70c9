//! Access control lists as far as a mode says the same: RFC 8881 §6. The mode decides about access
//! and is all that is kept; a list is another way to read and write it.

use bytes::Bytes;
use weft_nfs::{
    Ace, AceType, NfsStat, Opaque,
    ace_flag::{self, IDENTIFIER_GROUP},
    ace_mask::{
        self, APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, READ_ACL, READ_ATTRIBUTES, READ_DATA,
        SYNCHRONIZE, WRITE_ACL, WRITE_ATTRIBUTES, WRITE_DATA, WRITE_OWNER, WRITE_RETENTION,
        WRITE_RETENTION_HOLD,
    },
};

const OWNER: &[u8] = b"OWNER@";
const GROUP: &[u8] = b"GROUP@";
const EVERYONE: &[u8] = b"EVERYONE@";

/// What no mode takes from anybody.
const ALWAYS: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
/// And from the owner.
const ALWAYS_OWNER: u32 = ALWAYS | WRITE_ATTRIBUTES | WRITE_ACL;
/// What no mode gives to anybody. (Who may delete is a matter of the directory.)
const NEVER: u32 = DELETE | WRITE_OWNER | WRITE_RETENTION | WRITE_RETENTION_HOLD;

/// The permissions of one class of a mode: three bits.
fn permissions(rwx: u16, directory: bool) -> u32 {
    let write = WRITE_DATA | APPEND_DATA | if directory { DELETE_CHILD } else { 0 };
    [(4, READ_DATA), (2, write), (1, EXECUTE)]
        .iter()
        .filter(|(bit, _)| rwx & bit != 0)
        .fold(0, |mask, (_, permission)| mask | permission)
}

fn ace(acetype: AceType, who: &'static [u8], access_mask: u32) -> Ace {
    Ace { acetype, flag: 0, access_mask, who: Opaque(Bytes::from_static(who)) }
}

/// The list that says the same as a mode. A class is denied what a wider one is allowed: other
/// than in a list, the first class that fits is the only one that counts in a mode.
pub(crate) fn of_mode(mode: u16, directory: bool) -> Vec<Ace> {
    let of = |shift: u16| permissions(mode >> shift & 7, directory);
    let (user, group, other) = (of(6), of(3), of(0));
    let all = [
        ace(AceType::ALLOW, OWNER, user | ALWAYS_OWNER),
        ace(AceType::DENY, OWNER, (group | other) & !user),
        ace(AceType::ALLOW, GROUP, group | ALWAYS),
        ace(AceType::DENY, GROUP, other & !group),
        ace(AceType::ALLOW, EVERYONE, other | ALWAYS),
    ];
    all.into_iter().filter(|ace| ace.access_mask != 0).collect()
}

/// The nine low bits of the mode that says the same as a list.
///
/// # Errors
/// INVAL for bits that do not exist; ATTRNOTSUPP for what no mode can say: users and groups by
/// name, inheritance, auditing, writing without appending, and rights that modes do not know.
pub(crate) fn mode_of(aces: &[Ace]) -> Result<u16, NfsStat> {
    aces.iter().try_for_each(check)?;
    let owner = class(aces, &[OWNER, EVERYONE], ALWAYS_OWNER)?;
    // An owner who is in the group must not fare otherwise than one who is not.
    let owner_in_group = class(aces, &[OWNER, GROUP, EVERYONE], ALWAYS_OWNER)?;
    let group = class(aces, &[GROUP, EVERYONE], ALWAYS)?;
    let other = class(aces, &[EVERYONE], ALWAYS)?;
    if owner != owner_in_group {
        return Err(NfsStat::ATTRNOTSUPP);
    }
    Ok(owner << 6 | group << 3 | other)
}

/// One entry by itself.
fn check(ace: &Ace) -> Result<(), NfsStat> {
    let known = ace.access_mask & !ace_mask::ALL == 0 && ace.flag & !ace_flag::ALL == 0;
    if !known || ace.acetype > AceType::ALARM {
        return Err(NfsStat::INVAL);
    }
    let type_fits = matches!(ace.acetype, AceType::ALLOW | AceType::DENY);
    let who_fits = [OWNER, GROUP, EVERYONE].contains(&&ace.who.0[..]);
    // §6.2.1.4.1: the group flag means nothing with special identifiers.
    let flags_fit = ace.flag & !IDENTIFIER_GROUP == 0;
    if type_fits && who_fits && flags_fit { Ok(()) } else { Err(NfsStat::ATTRNOTSUPP) }
}

/// What the list gives to who is all of `whos`, as three bits of a mode (§6.3.2).
fn class(aces: &[Ace], whos: &[&[u8]], always: u32) -> Result<u16, NfsStat> {
    let (allowed, denied) = evaluate(aces, whos);
    let fits = allowed & NEVER == 0
        // Changing attributes is the owner's alone.
        && allowed & (WRITE_ATTRIBUTES | WRITE_ACL) & !always == 0
        && denied & always == 0;
    let has = |permission| allowed & permission == permission;
    let write = has(WRITE_DATA | APPEND_DATA);
    let part = !write && allowed & (WRITE_DATA | APPEND_DATA | DELETE_CHILD) != 0;
    let undeletable = write && denied & DELETE_CHILD != 0;
    if !fits || part || undeletable {
        return Err(NfsStat::ATTRNOTSUPP);
    }
    Ok(u16::from(has(READ_DATA)) << 2 | u16::from(write) << 1 | u16::from(has(EXECUTE)))
}

/// §6.2.1: entries in order, the first word about a permission counts.
fn evaluate(aces: &[Ace], whos: &[&[u8]]) -> (u32, u32) {
    let (mut allowed, mut denied) = (0, 0);
    for ace in aces.iter().filter(|ace| whos.contains(&&ace.who.0[..])) {
        let undecided = ace.access_mask & !(allowed | denied);
        match ace.acetype {
            AceType::ALLOW => allowed |= undecided,
            _ => denied |= undecided,
        }
    }
    (allowed, denied)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A requester for whom a list is evaluated as §6.2.1 says, one permission at a time.
    fn may(aces: &[Ace], identifiers: &[&[u8]], permission: u32) -> bool {
        let word = aces
            .iter()
            .find(|a| identifiers.contains(&&a.who.0[..]) && a.access_mask & permission != 0);
        word.is_some_and(|a| a.acetype == AceType::ALLOW)
    }

    /// §6.3.2 as it is written: OWNER@, GROUP@ and EVERYONE@, each with EVERYONE@.
    fn rfc_mode(aces: &[Ace]) -> u16 {
        let bits = |who: &[u8]| {
            let may = |permission| may(aces, &[who, EVERYONE], permission);
            let write = may(WRITE_DATA) && may(APPEND_DATA);
            u16::from(may(READ_DATA)) << 2 | u16::from(write) << 1 | u16::from(may(EXECUTE))
        };
        bits(OWNER) << 6 | bits(GROUP) << 3 | bits(EVERYONE)
    }

    /// Every mode has a list from which the RFC computes the mode again, that gives each of owner,
    /// owner in the group, member of the group and stranger what the mode gives, and that can be
    /// set again.
    #[test]
    fn every_mode_has_its_list() {
        for mode in 0..0o1000 {
            for directory in [false, true] {
                let aces = of_mode(mode, directory);
                assert_eq!(rfc_mode(&aces), mode, "{mode:o}");
                let requesters: [(&[&[u8]], u16); 4] = [
                    (&[OWNER, EVERYONE], mode >> 6),
                    (&[OWNER, GROUP, EVERYONE], mode >> 6),
                    (&[GROUP, EVERYONE], mode >> 3),
                    (&[EVERYONE], mode),
                ];
                for (identifiers, bits) in requesters {
                    for (bit, permission) in [(4, READ_DATA), (2, APPEND_DATA), (1, EXECUTE)] {
                        assert_eq!(may(&aces, identifiers, permission), bits & bit != 0);
                    }
                    assert_eq!(may(&aces, identifiers, DELETE_CHILD), directory && bits & 2 != 0);
                }
                assert_eq!(mode_of(&aces), Ok(mode), "{mode:o}");
            }
        }
    }

    fn list(text: &str) -> Vec<Ace> {
        let one = |text: &str| {
            let [kind, flags, who, mask] = text.split(':').collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            let mut ace = ace(if kind == "A" { AceType::ALLOW } else { AceType::DENY }, b"", 0);
            ace.flag = flags.chars().map(|c| 1 << "fdnpSFg".find(c).unwrap()).sum();
            ace.who = Opaque(Bytes::copy_from_slice(who.as_bytes()));
            let bits = "rwanNxDtTeEdcCoy";
            let low = |at: usize| if at < 11 { 1 << at } else { 1 << (at + 5) };
            ace.access_mask = mask.chars().map(|c| low(bits.find(c).unwrap())).sum();
            ace
        };
        text.split_whitespace().map(one).collect()
    }

    /// Lists as users write them (nfs4_setfacl), and the mode or refusal they get.
    #[test]
    fn lists_of_users() {
        let rows = [
            ("", Ok(0)),
            ("A::OWNER@:rwaxtTcCy A:g:GROUP@:rxtcy A::EVERYONE@:tcy", Ok(0o750)),
            ("A::EVERYONE@:rwax", Ok(0o777)),
            ("D::EVERYONE@:wa A::EVERYONE@:rwax", Ok(0o555)),
            ("A::OWNER@:wa A::EVERYONE@:r", Ok(0o644)),
            ("A::OWNER@:rwaDnN A::EVERYONE@:r", Ok(0o644)),
            // The owner in the group would get what the owner outside does not.
            ("A::GROUP@:rwa A::EVERYONE@:r", Err(NfsStat::ATTRNOTSUPP)),
            ("D::OWNER@:wa A::GROUP@:rwa A::EVERYONE@:r", Ok(0o464)),
            ("A::OWNER@:rw", Err(NfsStat::ATTRNOTSUPP)),
            ("A::OWNER@:rD", Err(NfsStat::ATTRNOTSUPP)),
            ("D::EVERYONE@:D A::EVERYONE@:rwa", Err(NfsStat::ATTRNOTSUPP)),
            ("A::EVERYONE@:rC", Err(NfsStat::ATTRNOTSUPP)),
            ("A::OWNER@:ro", Err(NfsStat::ATTRNOTSUPP)),
            ("A::OWNER@:rd", Err(NfsStat::ATTRNOTSUPP)),
            ("D::EVERYONE@:t A::EVERYONE@:r", Err(NfsStat::ATTRNOTSUPP)),
            ("D::OWNER@:C A::EVERYONE@:r", Err(NfsStat::ATTRNOTSUPP)),
            ("A::1000:r", Err(NfsStat::ATTRNOTSUPP)),
            ("A:fd:OWNER@:r", Err(NfsStat::ATTRNOTSUPP)),
        ];
        for (text, mode) in rows {
            assert_eq!(mode_of(&list(text)), mode, "{text}");
        }
    }

    /// Bits, flags and types that are not supported or do not exist.
    #[test]
    fn entries_are_checked() {
        let good = ace(AceType::ALLOW, OWNER, READ_DATA);
        let rows = [
            (Ace { access_mask: 0x20_0000, ..good.clone() }, NfsStat::INVAL),
            (Ace { access_mask: 0x800, ..good.clone() }, NfsStat::INVAL),
            (Ace { flag: 0x100, ..good.clone() }, NfsStat::INVAL),
            (Ace { acetype: AceType(4), ..good.clone() }, NfsStat::INVAL),
            (Ace { acetype: AceType::AUDIT, ..good.clone() }, NfsStat::ATTRNOTSUPP),
            (Ace { acetype: AceType::ALARM, ..good.clone() }, NfsStat::ATTRNOTSUPP),
            (Ace { flag: 1, ..good }, NfsStat::ATTRNOTSUPP),
        ];
        for (ace, status) in rows {
            assert_eq!(mode_of(std::slice::from_ref(&ace)), Err(status), "{ace:?}");
        }
    }

    fn aces() -> impl Strategy<Value = Vec<Ace>> {
        let who = prop::sample::select(vec![OWNER, GROUP, EVERYONE]);
        let kind = prop::sample::select(vec![AceType::ALLOW, AceType::DENY]);
        let mask = (0u16..8).prop_map(|rwx| permissions(rwx, false));
        prop::collection::vec((kind, who, mask).prop_map(|(k, w, m)| ace(k, w, m)), 0..8)
    }

    proptest! {
        /// Whatever is accepted is the mode that the RFC computes, and gives an owner the same
        /// whether he is in the group or not.
        #[test]
        fn what_is_accepted_is_exact(aces in aces()) {
            let same = [READ_DATA, WRITE_DATA, EXECUTE].into_iter().all(|p| {
                may(&aces, &[OWNER, EVERYONE], p) == may(&aces, &[OWNER, GROUP, EVERYONE], p)
            });
            let wanted = if same { Ok(rfc_mode(&aces)) } else { Err(NfsStat::ATTRNOTSUPP) };
            prop_assert_eq!(mode_of(&aces), wanted);
        }
    }
}
