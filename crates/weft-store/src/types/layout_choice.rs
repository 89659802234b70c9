//! How the files of a directory are to be spread over data servers, as its owner chose (P1.3), and
//! the words for it: those of the extended attribute by which it is set and shown.

use std::{collections::BTreeSet, fmt, str::FromStr};

use weft_stripe::CyclicList;

use super::{
    DataServerId,
    placement::{Device, Placement, Spread},
};

/// Name of the extended attribute, without Linux' `user.`.
pub const LAYOUT_XATTR: &[u8] = b"weft.layout";

/// Stripe units are multiples of this, bytes: handles of data servers carry them in MiB.
pub const STRIPE_UNIT_STEP_BYTES: u32 = 1 << 20;
/// Largest stripe unit, bytes.
pub const STRIPE_UNIT_BYTES_MAX: u32 = 64 << 20;
/// Most data servers of a file that can be asked for: as many as a layout has room for.
const STRIPE_COUNT_MAX: u16 = 100;
/// Copies of a file that can be asked for.
const COPIES: std::ops::RangeInclusive<u16> = 2..=8;
/// Most rounds of small units.
const ROUNDS_MAX: u16 = 1024;
/// Longest text that is looked at, bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// How new files are spread. What is absent is as the volume has it. What is said as nested is kept
/// as the cyclic list that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutChoice {
    /// Bytes of a stripe unit; a multiple of 1 MiB.
    pub stripe_unit_bytes: Option<u32>,
    /// Data servers of a file, at most; always absent with a list, and with copies.
    pub stripe_count: Option<u16>,
    /// How units are dealt out.
    pub deal: Deal,
}

/// How stripe units are dealt out to data servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Deal {
    /// In turn.
    #[default]
    RoundRobin,
    /// By a list of data servers, over and over: 1 to [`CyclicList::LEN_MAX`] entries.
    Cyclic(Vec<DataServerId>),
    /// In turn, with units that grow.
    Variable {
        /// Rounds with the stripe unit; at least 1.
        rounds: u16,
        /// Bytes of the units behind those; a multiple of 1 MiB.
        later_unit_bytes: u32,
    },
    /// All bytes on each of so many data servers: 2 to 8.
    Replicated(u16),
}

/// A text that says no layout: what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLayoutChoice(String);

impl LayoutChoice {
    /// What a directory had to choose for a file of this place.
    pub fn of_place(place: &Placement, device: &Device) -> Self {
        let deal = match place.spread {
            Spread::InTurn => Deal::RoundRobin,
            Spread::List(list) => {
                let from = usize::from(place.first_stripe_index);
                let entries = list.entries().iter().cycle().skip(from).take(list.turns().into());
                let server = |i: &u8| device.data_servers.get(usize::from(*i)).copied();
                Deal::Cyclic(entries.filter_map(server).collect())
            }
            Spread::Growing { rounds, later_unit_bytes } => {
                Deal::Variable { rounds, later_unit_bytes }
            }
            Spread::Copies { .. } => Deal::Replicated(place.stripe_count),
        };
        let says_how_many = matches!(deal, Deal::Cyclic(_) | Deal::Replicated(_));
        LayoutChoice {
            stripe_unit_bytes: Some(place.stripe_unit_bytes),
            stripe_count: (!says_how_many).then_some(place.stripe_count),
            deal,
        }
    }

    /// Data servers that it names.
    pub fn named(&self) -> &[DataServerId] {
        match &self.deal {
            Deal::Cyclic(servers) => servers,
            Deal::RoundRobin | Deal::Variable { .. } | Deal::Replicated(_) => &[],
        }
    }

    /// Whether the numbers are within their limits, and nothing contradicts itself.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), BadLayoutChoice> {
        let unit = |what: &str, bytes: u32| {
            let good = (STRIPE_UNIT_STEP_BYTES..=STRIPE_UNIT_BYTES_MAX).contains(&bytes)
                && bytes.is_multiple_of(STRIPE_UNIT_STEP_BYTES);
            let why = || bad(format!("{what} must be a multiple of 1MiB, from 1MiB to 64MiB"));
            good.then_some(()).ok_or_else(why)
        };
        if let Some(bytes) = self.stripe_unit_bytes {
            unit("stripe_unit", bytes)?;
        }
        if let Some(count) = self.stripe_count
            && !(1..=STRIPE_COUNT_MAX).contains(&count)
        {
            return Err(bad(format!("stripe_count must be from 1 to {STRIPE_COUNT_MAX}")));
        }
        match &self.deal {
            Deal::RoundRobin => Ok(()),
            Deal::Cyclic(_) if self.stripe_count.is_some() => {
                Err(bad("a cyclic list says by itself how many data servers: no stripe_count"))
            }
            Deal::Cyclic(servers) if (1..=CyclicList::LEN_MAX).contains(&servers.len()) => Ok(()),
            Deal::Cyclic(_) => {
                Err(bad(format!("servers must be 1 to {} numbers", CyclicList::LEN_MAX)))
            }
            Deal::Variable { rounds, .. } if !(1..=ROUNDS_MAX).contains(rounds) => {
                Err(bad(format!("rounds must be from 1 to {ROUNDS_MAX}")))
            }
            Deal::Variable { later_unit_bytes, .. } => unit("later_unit", *later_unit_bytes),
            Deal::Replicated(_) if self.stripe_count.is_some() => {
                Err(bad("copies say by themselves how many data servers: no stripe_count"))
            }
            Deal::Replicated(copies) if COPIES.contains(copies) => Ok(()),
            Deal::Replicated(_) => {
                Err(bad(format!("copies must be from {} to {}", COPIES.start(), COPIES.end())))
            }
        }
    }
}

fn bad(why: impl Into<String>) -> BadLayoutChoice {
    BadLayoutChoice(why.into())
}

impl fmt::Display for LayoutChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u32| bytes / STRIPE_UNIT_STEP_BYTES;
        match &self.deal {
            Deal::RoundRobin => write!(f, "distribution=round-robin")?,
            Deal::Cyclic(servers) => {
                let numbers: Vec<String> = servers.iter().map(|s| s.0.to_string()).collect();
                write!(f, "distribution=cyclic servers={}", numbers.join(","))?;
            }
            Deal::Variable { rounds, later_unit_bytes } => write!(
                f,
                "distribution=variable rounds={rounds} later_unit={}MiB",
                mib(*later_unit_bytes)
            )?,
            Deal::Replicated(copies) => write!(f, "distribution=replicated copies={copies}")?,
        }
        if let Some(bytes) = self.stripe_unit_bytes {
            write!(f, " stripe_unit={}MiB", mib(bytes))?;
        }
        if let Some(count) = self.stripe_count {
            write!(f, " stripe_count={count}")?;
        }
        Ok(())
    }
}

impl FromStr for LayoutChoice {
    type Err = BadLayoutChoice;

    /// Words `key=value` between blanks, each key once, in any order.
    fn from_str(text: &str) -> Result<Self, BadLayoutChoice> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(bad("the text is too long"));
        }
        let (mut seen, mut choice) = (BTreeSet::new(), LayoutChoice::nothing());
        let (mut name, mut servers, mut groups) = (None, None, None);
        let (mut rounds, mut later, mut copies) = (None, None, None);
        for word in text.split_ascii_whitespace() {
            let why = || bad(format!("{word:?} is not key=value"));
            let (key, value) = word.split_once('=').ok_or_else(why)?;
            if !seen.insert(key) {
                return Err(bad(format!("{key:?} is there twice")));
            }
            match key {
                "stripe_unit" => choice.stripe_unit_bytes = Some(bytes(key, value)?),
                "stripe_count" => choice.stripe_count = Some(number(key, value)?),
                "distribution" => name = Some(value),
                "servers" => servers = Some(numbers(key, value)?),
                "groups" => groups = Some(value),
                "rounds" => rounds = Some(number(key, value)?),
                "later_unit" => later = Some(bytes(key, value)?),
                "copies" => copies = Some(number(key, value)?),
                _ => return Err(bad(format!("{key:?} is no part of a layout"))),
            }
        }
        let name = name.unwrap_or("round-robin");
        choice.deal = match (name, servers, groups, rounds, later, copies) {
            _ if seen.is_empty() => return Err(bad("it says nothing")),
            ("round-robin", None, None, None, None, None) => Deal::RoundRobin,
            ("cyclic", Some(servers), None, None, None, None) => Deal::Cyclic(servers),
            ("nested", None, Some(groups), rounds, None, None) => {
                Deal::Cyclic(nested(groups, rounds.unwrap_or(1))?)
            }
            ("variable", None, None, rounds, Some(later_unit_bytes), None) => {
                Deal::Variable { rounds: rounds.unwrap_or(1), later_unit_bytes }
            }
            ("replicated", None, None, None, None, Some(copies)) => Deal::Replicated(copies),
            ("cyclic", None, ..) => return Err(bad("distribution=cyclic needs servers=1,1,2")),
            ("nested", _, None, ..) => return Err(bad("distribution=nested needs groups=1,2/3,4")),
            ("variable", .., None, _) => {
                return Err(bad("distribution=variable needs later_unit=16MiB"));
            }
            ("replicated", .., None) => return Err(bad("distribution=replicated needs copies=2")),
            ("round-robin" | "cyclic" | "nested" | "variable" | "replicated", ..) => {
                return Err(bad(
                    "servers are for distribution=cyclic, groups for nested, later_unit \
                     for variable, rounds for these two, and copies for replicated",
                ));
            }
            (other, ..) => {
                return Err(bad(format!(
                    "there is no distribution {other:?}: round-robin, cyclic, nested, variable, \
                     replicated"
                )));
            }
        };
        choice.check()?;
        Ok(choice)
    }
}

impl LayoutChoice {
    fn nothing() -> Self {
        LayoutChoice { stripe_unit_bytes: None, stripe_count: None, deal: Deal::RoundRobin }
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, BadLayoutChoice> {
    value.parse().map_err(|_| bad(format!("{key}={value:?}: not such a number")))
}

fn numbers(key: &str, value: &str) -> Result<Vec<DataServerId>, BadLayoutChoice> {
    value.split(',').map(|one| number(key, one).map(DataServerId)).collect()
}

/// Striping over groups, each of which is striped over its data servers, as the list that it is:
/// each group in turn, and so many rounds of it.
fn nested(groups: &str, rounds: u16) -> Result<Vec<DataServerId>, BadLayoutChoice> {
    let groups: Result<Vec<_>, _> = groups.split('/').map(|one| numbers("groups", one)).collect();
    let (groups, rounds) = (groups?, usize::from(rounds));
    let entries = groups.iter().map(Vec::len).sum::<usize>() * rounds;
    if !(1..=CyclicList::LEN_MAX).contains(&entries) {
        let most = CyclicList::LEN_MAX;
        return Err(bad(format!("numbers of groups times rounds must be from 1 to {most}")));
    }
    Ok(groups.iter().flat_map(|group| group.repeat(rounds)).collect())
}

/// Bytes: a number, or one with KiB, MiB or GiB, of which `iB` may be left out.
fn bytes(key: &str, value: &str) -> Result<u32, BadLayoutChoice> {
    let why = || bad(format!("{key}={value:?}: not a size, such as 4MiB"));
    let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (amount, unit) = value.split_at_checked(digits).ok_or_else(why)?;
    let factor: u32 = match unit {
        "" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(why()),
    };
    amount.parse::<u32>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    /// What is said comes back in the same words, in one order.
    #[test]
    fn words_come_back() {
        let words = [
            ("stripe_count=2 stripe_unit=4M", "round-robin stripe_unit=4MiB stripe_count=2"),
            ("distribution=round-robin", "round-robin"),
            ("stripe_unit=1048576", "round-robin stripe_unit=1MiB"),
            ("servers=3,1,3 distribution=cyclic", "cyclic servers=3,1,3"),
            ("distribution=nested groups=1,2/3", "cyclic servers=1,2,3"),
            (
                "distribution=nested groups=1,2/3,4 rounds=2 stripe_unit=2MiB",
                "cyclic servers=1,2,1,2,3,4,3,4 stripe_unit=2MiB",
            ),
            ("copies=2 distribution=replicated", "replicated copies=2"),
            (
                "distribution=replicated copies=8 stripe_unit=1M",
                "replicated copies=8 stripe_unit=1MiB",
            ),
            ("distribution=variable\tlater_unit=64MiB\n", "variable rounds=1 later_unit=64MiB"),
            (
                "distribution=variable rounds=2 later_unit=8MiB stripe_unit=2048K stripe_count=100",
                "variable rounds=2 later_unit=8MiB stripe_unit=2MiB stripe_count=100",
            ),
        ];
        for (said, kept) in words {
            let choice: LayoutChoice = said.parse().unwrap();
            assert_eq!(choice.to_string(), format!("distribution={kept}"));
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    /// Each bad text is refused, and told what is wrong with it.
    #[test]
    fn bad_words_are_refused() {
        let too_many = format!("distribution=cyclic servers={}", vec!["1"; 17].join(","));
        let too_long = format!("stripe_unit={}", "0".repeat(1024));
        let bad = [
            ("", "nothing"),
            ("fast", "not key=value"),
            ("speed=9", "no part"),
            ("stripe_count=1 stripe_count=2", "twice"),
            ("stripe_unit=0", "multiple of 1MiB"),
            ("stripe_unit=65MiB", "multiple of 1MiB"),
            ("stripe_unit=1500K", "multiple of 1MiB"),
            ("stripe_unit=4096GiB", "not a size"),
            ("stripe_unit=MiB", "not a size"),
            ("stripe_unit=1mib", "not a size"),
            ("stripe_count=0", "from 1 to 100"),
            ("stripe_count=101", "from 1 to 100"),
            ("stripe_count=-1", "not such a number"),
            ("distribution=mirrored", "no distribution"),
            ("distribution=replicated", "needs copies"),
            ("distribution=replicated copies=1", "from 2 to 8"),
            ("distribution=replicated copies=9", "from 2 to 8"),
            ("distribution=replicated copies=2 stripe_count=2", "no stripe_count"),
            ("distribution=replicated copies=2 servers=1,2", "are for"),
            ("copies=2", "are for"),
            ("distribution=cyclic", "needs servers"),
            ("distribution=cyclic servers=", "not such a number"),
            ("distribution=cyclic servers=1,2 stripe_count=2", "no stripe_count"),
            ("servers=1", "are for"),
            ("distribution=cyclic servers=1 rounds=2", "are for"),
            ("distribution=nested groups=1 servers=1", "are for"),
            ("distribution=nested rounds=2", "needs groups"),
            ("distribution=nested groups=1//2", "not such a number"),
            ("distribution=nested groups=1,2/3 rounds=0", "from 1 to 16"),
            ("distribution=nested groups=1,2/3,4 rounds=5", "from 1 to 16"),
            ("distribution=variable", "needs later_unit"),
            ("distribution=variable later_unit=3", "multiple of 1MiB"),
            ("distribution=variable later_unit=1MiB rounds=0", "rounds"),
            ("distribution=variable later_unit=1MiB rounds=1025", "rounds"),
            (&too_many, "1 to 16"),
            (&too_long, "too long"),
        ];
        for (text, why) in bad {
            let refused = text.parse::<LayoutChoice>().unwrap_err().to_string();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    /// Groups, and in each its data servers: a byte is where round robin over the groups leads, and
    /// round robin within one from there.
    #[test]
    fn nested_is_round_robin_twice() {
        use weft_stripe::{Distribution, Form};
        let round_robin = |unit, count| Distribution::round_robin(unit, count, 0, Form::Dense);
        for (groups, members, rounds) in [(2, 2, 1), (2, 2, 2), (3, 2, 2), (2, 3, 2), (4, 1, 3)] {
            let id = |group: u32, member: u32| DataServerId(10 * group + member);
            let group = |g| (0..members).map(|m| id(g, m).0.to_string()).collect::<Vec<_>>();
            let words: Vec<_> = (0..groups).map(|g| group(g).join(",")).collect();
            let words = format!("distribution=nested rounds={rounds} groups={}", words.join("/"));
            let choice: LayoutChoice = words.parse().unwrap();
            let device = Device::of_stripes(super::super::DeviceId([1; 16]), choice.named());
            let device = device.unwrap();
            let outer = round_robin(u64::from(4 * members * rounds), groups).unwrap();
            let inner = round_robin(4, members).unwrap();
            let stripes = device.stripes();
            for at in 0..400 {
                let of_group = outer.locate(at);
                let member = inner.locate(of_group.object_offset).stripe_index;
                let turn = at / 4 % stripes.len() as u64;
                assert_eq!(
                    stripes[turn as usize],
                    id(of_group.stripe_index, member),
                    "{words} {at}"
                );
            }
        }
    }

    /// The place of a file is shown as the choice that leads to it, from its first unit on.
    #[test]
    fn places_are_shown() {
        let device = Device {
            id: super::super::DeviceId([1; 16]),
            data_servers: vec![DataServerId(7), DataServerId(9)],
            list: CyclicList::new(&[0, 0, 1]).ok(),
        };
        let place = Placement {
            device: device.id,
            stripe_unit_bytes: 2 * MIB,
            stripe_count: 2,
            first_stripe_index: 2,
            reach: 1,
            spread: Spread::List(CyclicList::new(&[0, 0, 1]).unwrap()),
        };
        let shown = |place: &Placement| LayoutChoice::of_place(place, &device).to_string();
        assert_eq!(shown(&place), "distribution=cyclic servers=9,7,7 stripe_unit=2MiB");
        let grows = Spread::Growing { rounds: 3, later_unit_bytes: 8 * MIB };
        let words =
            "distribution=variable rounds=3 later_unit=8MiB stripe_unit=2MiB stripe_count=2";
        assert_eq!(shown(&Placement { spread: grows, ..place }), words);
        let words = "distribution=replicated copies=2 stripe_unit=2MiB";
        for alike in [true, false] {
            assert_eq!(shown(&Placement { spread: Spread::Copies { alike }, ..place }), words);
        }
    }
}
