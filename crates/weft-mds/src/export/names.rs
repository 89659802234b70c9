//! Owners and groups as the strings of the protocol (RFC 8881 §5.9): a decimal number always;
//! `name@domain` where a domain is configured, by the configured table or the host's databases.

mod host;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Semaphore;
use weft_nfs::{Attrs, Failure, NfsStat, Opaque, attr::numeric_owner};
use weft_server::rpc::{Caller, NOBODY};
use weft_store::types::{Inode, Who};

pub use host::{Answer, Host, Question, SystemHost};

/// How long an answer of the host is believed.
const BELIEVED: Duration = Duration::from_secs(300);
/// Answers kept; beyond that the memory starts anew.
const KEPT_MAX: usize = 16_384;
/// How long a request waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions put to the host at once: a slow directory service must not take all threads.
const ASKING_MAX: usize = 8;

/// How owners are called: a configuration.
#[derive(Debug, Clone, Default)]
pub struct Naming {
    /// What follows the `@`; without it only numbers are understood.
    pub domain: Option<String>,
    /// Users by name.
    pub users: Vec<(String, u32)>,
    /// Groups by name.
    pub groups: Vec<(String, u32)>,
    /// Whether the host's databases are asked for the rest.
    pub host: bool,
    /// Whether clients are told names where there are some.
    pub answer: bool,
}

/// Users and groups that owner attributes named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owners {
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

/// One of the two databases.
#[derive(Debug, Clone, Copy)]
enum Database {
    Users,
    Groups,
}

impl Database {
    fn id_of(self, name: &str) -> Question {
        match self {
            Database::Users => Question::UserId(name.to_owned()),
            Database::Groups => Question::GroupId(name.to_owned()),
        }
    }

    fn name_of(self, id: u32) -> Question {
        match self {
            Database::Users => Question::UserName(id),
            Database::Groups => Question::GroupName(id),
        }
    }
}

/// Longest time that one request asks for names: lists may name hundreds.
const LEARN_MAX: Duration = Duration::from_secs(5);

/// How many names are looked up, of those that are known already, before others have their turn.
const ASKED_AT_ONCE: usize = 256;

/// Names and numbers of users and groups.
#[derive(Debug)]
pub struct Names {
    naming: Naming,
    host: Arc<dyn Host>,
    kept: Mutex<HashMap<Question, (Answer, Instant)>>,
    asking: Arc<Semaphore>,
}

impl Names {
    /// With this configuration, asking this host.
    pub fn new(naming: Naming, host: Arc<dyn Host>) -> Names {
        let asking = Arc::new(Semaphore::new(ASKING_MAX));
        Names { naming, host, kept: Mutex::default(), asking }
    }

    /// The owner string of a user.
    pub fn user(&self, uid: u32) -> Opaque {
        self.told(Database::Users, uid)
    }

    /// The owner string of a group.
    pub fn group(&self, gid: u32) -> Opaque {
        self.told(Database::Groups, gid)
    }

    fn told(&self, database: Database, id: u32) -> Opaque {
        let name = self.table(database).iter().find(|(_, i)| *i == id).map(|(name, _)| name);
        let domain = self.naming.domain.as_ref().filter(|_| self.naming.answer);
        let Some(domain) = domain else { return numeric_owner(id) };
        let kept = match self.kept(&database.name_of(id)) {
            Some(Answer::Name(name)) => Some(name),
            _ => None,
        };
        match name.cloned().or(kept) {
            Some(name) => Opaque(Bytes::from(format!("{name}@{domain}"))),
            None => numeric_owner(id),
        }
    }

    fn table(&self, database: Database) -> &[(String, u32)] {
        match database {
            Database::Users => &self.naming.users,
            Database::Groups => &self.naming.groups,
        }
    }

    /// Asks the host for the names of these inodes' owners, and of whom their lists name if they
    /// are `listed`, so that [`Names::user`] and [`Names::group`] know them. Whom the host does not
    /// tell of in time goes by number.
    pub async fn learn(&self, inodes: impl Iterator<Item = &Inode>, listed: bool) {
        if self.naming.answer && self.naming.host && self.naming.domain.is_some() {
            // Not a part of every request's memory.
            let learned = Box::pin(self.learn_from_host(inodes, listed));
            let _ = tokio::time::timeout(LEARN_MAX, learned).await;
        }
    }

    async fn learn_from_host(&self, inodes: impl Iterator<Item = &Inode>, listed: bool) {
        let mut asked = 0;
        for inode in inodes {
            let owners = [Question::UserName(inode.uid), Question::GroupName(inode.gid)];
            let acl = inode.acl.as_ref().filter(|_| listed);
            let named = acl.into_iter().flat_map(|acl| acl.entries()).filter_map(|e| match e.who {
                Who::User(uid) => Some(Question::UserName(uid)),
                Who::Members(gid) => Some(Question::GroupName(gid)),
                Who::Owner | Who::Group | Who::Everyone => None,
            });
            for question in owners.into_iter().chain(named) {
                asked += 1;
                if asked % ASKED_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
                // A host that cannot tell now is not asked about all the others too.
                if self.ask(question).await.is_none() {
                    return;
                }
            }
        }
    }

    /// The users and groups that owner attributes name.
    ///
    /// # Errors
    /// BADOWNER for whom nobody knows; INVAL for strings that are not UTF-8 (§14.5); DELAY while
    /// the host cannot tell.
    pub async fn owners(&self, a: &Attrs) -> Result<Owners, Failure> {
        let mut owners = Owners::default();
        if let Some(owner) = &a.owner {
            owners.uid = Some(self.user_id(owner).await?);
        }
        if let Some(group) = &a.owner_group {
            owners.gid = Some(self.group_id(group).await?);
        }
        Ok(owners)
    }

    /// The user of an owner string.
    ///
    /// # Errors
    /// As [`Names::owners`].
    pub async fn user_id(&self, owner: &Opaque) -> Result<u32, Failure> {
        self.id(Database::Users, owner).await
    }

    /// The group of an owner string.
    ///
    /// # Errors
    /// As [`Names::owners`].
    pub async fn group_id(&self, group: &Opaque) -> Result<u32, Failure> {
        self.id(Database::Groups, group).await
    }

    async fn id(&self, database: Database, owner: &Opaque) -> Result<u32, Failure> {
        let owner = std::str::from_utf8(&owner.0).map_err(|_| NfsStat::INVAL)?;
        if let Some(id) = decimal(owner) {
            return Ok(id);
        }
        let (name, domain) = owner.rsplit_once('@').ok_or(NfsStat::BADOWNER)?;
        let ours = self.naming.domain.as_ref().is_some_and(|d| d.eq_ignore_ascii_case(domain));
        if !ours || name.is_empty() || name.contains('\0') {
            return Err(NfsStat::BADOWNER.into());
        }
        if let Some((_, id)) = self.table(database).iter().find(|(n, _)| n == name) {
            return Ok(*id);
        }
        if !self.naming.host {
            return Err(NfsStat::BADOWNER.into());
        }
        match self.ask(database.id_of(name)).await {
            Some(Answer::Id(id)) => Ok(id),
            Some(_) => Err(NfsStat::BADOWNER.into()),
            None => Err(NfsStat::DELAY.into()),
        }
    }

    /// The groups of a user as the host knows them; `None` if it does not know him, or cannot
    /// tell.
    pub async fn groups_of(&self, uid: u32) -> Option<Arc<[u32]>> {
        match self.ask(Question::GroupsOf(uid)).await {
            Some(Answer::Groups(groups)) => Some(groups),
            _ => None,
        }
    }

    /// The caller with the groups that the host knows, if it knows the user; else what the client
    /// says is all there is.
    pub(crate) async fn with_groups(&self, caller: Caller) -> Caller {
        match self.groups_of(caller.uid).await {
            Some(groups) => Caller { gids: groups.to_vec(), ..caller },
            None => caller,
        }
    }

    /// The caller with the groups that the host knows, and no others: what the client says of its
    /// groups counts for nothing. Whom the host does not know has none.
    pub(crate) async fn with_groups_only(&self, caller: Caller) -> Caller {
        let groups = self.groups_of(caller.uid).await;
        let gids = groups.map_or_else(Vec::new, |groups| groups.to_vec());
        let gid = Some(caller.gid).filter(|gid| gids.contains(gid));
        let gid = gid.or(gids.first().copied()).unwrap_or(NOBODY);
        Caller { gid, gids, ..caller }
    }

    fn kept(&self, question: &Question) -> Option<Answer> {
        // Nothing is half done under this lock.
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, since) = kept.get(question)?;
        (since.elapsed() < BELIEVED).then(|| answer.clone())
    }

    /// What the host answers, or answered a while ago; `None` if it cannot answer.
    async fn ask(&self, question: Question) -> Option<Answer> {
        if let Some(answer) = self.kept(&question) {
            return Some(answer);
        }
        match tokio::time::timeout(PATIENCE, self.ask_host(question.clone())).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(e)) => {
                tracing::warn!(?question, error = %e, "the host cannot tell");
                None
            }
            Err(_) => {
                tracing::warn!(?question, "the host does not answer");
                None
            }
        }
    }

    async fn ask_host(&self, question: Question) -> io::Result<Answer> {
        let turn = self.asking.clone().acquire_owned().await.map_err(io::Error::other)?;
        // Another request may have asked the same meanwhile.
        if let Some(answer) = self.kept(&question) {
            return Ok(answer);
        }
        let (host, asked) = (self.host.clone(), question.clone());
        let answer = tokio::task::spawn_blocking(move || {
            // Held as long as the thread, however long anybody waits for the answer.
            let _turn = turn;
            host.ask(&asked)
        });
        let answer = answer.await.map_err(io::Error::other)??;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(question, (answer.clone(), Instant::now()));
        Ok(answer)
    }
}

/// A number as §5.9 writes it: without sign or leading zeros.
fn decimal(text: &str) -> Option<u32> {
    let plain = text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
