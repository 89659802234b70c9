//! Acts of clients as clients: that they are somebody else, that they come anew, and what the
//! server does to all of them.

use std::time::Duration;

use weft_nfs::{
    ClientId, NfsStat, OpArgs, OpOk, SequenceId,
    ops::{DestroyClientidArgs, DestroySessionArgs},
    share,
};

use super::{
    data::By,
    held::HostId,
    run::{Actor, Fault, POLICIES, Policy, Run, USERS, arrive, credential, fault},
    world::Verdict,
};
use crate::support::*;

/// Acts of each host before it says that it has reclaimed everything.
const RECLAIMS: usize = 12;
/// Rounds of answering callbacks before the server is killed.
const ROUNDS: usize = 10;

/// A record that somebody asked for in another's name, and has not confirmed.
pub struct Claim {
    actor: Actor,
    victim: HostId,
    clientid: ClientId,
    sequence: SequenceId,
    options: ClientOptions,
}

impl Run {
    /// Comes under the name of another host's client, as if that had started anew, or as another
    /// user of the same host.
    pub async fn pose(&mut self, a: Actor) -> Result<(), Fault> {
        let victim = self.random.index(self.hosts.len());
        let same_user = USERS[a.user].is_some_and(|(uid, ..)| uid == 0);
        if self.hosts[victim].client.is_none() || victim == a.host && same_user {
            return Ok(());
        }
        let verifier = self.hosts[victim].verifier + u64::from(self.one_in(2) || same_user) * 1000;
        let from = self.hosts[a.host].address;
        let options = ClientOptions { verifier, from, ..self.hosts[victim].owner(victim) };
        let wire = Wire::connect_from(from, self.cluster.address()).await;
        let (status, client) = arrive(wire, options, credential(a.user)).await;
        self.log.push(format!("{a:?} poses as host {victim}: {status:?}"));
        self.figures.refused += usize::from(status != NfsStat::OK);
        if client.is_some() {
            return fault(format!(
                "{a:?} takes the place of host {victim}, whose session is in use"
            ));
        }
        self.is_alive(victim).await
    }

    /// The session of a host is as good as before.
    async fn is_alive(&mut self, host: HostId) -> Result<(), Fault> {
        if self.hosts[host].client.is_some() {
            self.ask(Actor { host, user: 0 }, &[]).await?;
        }
        Ok(())
    }

    /// A host that has no session: somebody asks for its record, and confirms it when the host has
    /// come back and holds something.
    pub async fn lie_in_wait(&mut self, a: Actor) -> Result<(), Fault> {
        let victim = self.random.index(self.hosts.len());
        let may_come = |host: HostId| self.hosts[host].policy != Policy::Nothing;
        let idle = !self.held.anything(victim) && self.hosts[victim].client.is_some();
        if victim == a.host || !idle || !may_come(victim) || !may_come(a.host) {
            return Ok(());
        }
        self.leave(victim).await?;
        let options = ClientOptions {
            verifier: self.hosts[victim].verifier + 2000,
            from: self.hosts[a.host].address,
            ..self.hosts[victim].owner(victim)
        };
        let mut wire = Wire::connect_from(options.from, self.cluster.address()).await;
        let ask = [OpArgs::ExchangeId(exchange_id(&options))];
        let reply = wire.compound(&credential(a.user), 2, &ask).await;
        let claim = match &reply.last().result {
            Ok(OpOk::ExchangeId(known)) => {
                let (clientid, sequence) = (known.clientid, known.sequenceid);
                Some(Claim { actor: a, victim, clientid, sequence, options })
            }
            _ => None,
        };
        self.log.push(format!("{a:?} asks for the record of host {victim}: {:?}", reply.status()));
        self.come(victim).await?;
        self.open_anything(victim).await?;
        match claim {
            Some(claim) => self.confirm(claim).await,
            None => Ok(()),
        }
    }

    async fn open_anything(&mut self, host: HostId) -> Result<(), Fault> {
        let Some(id) = self.any(|n| n.is_file()) else { return Ok(()) };
        self.open_file(Actor { host, user: 0 }, (None, id), share::ACCESS_READ, By::Handle).await
    }

    async fn confirm(&mut self, claim: Claim) -> Result<(), Fault> {
        let mut wire = Wire::connect_from(claim.options.from, self.cluster.address()).await;
        let create = create_session(claim.clientid, claim.sequence, &claim.options);
        let ask = [OpArgs::CreateSession(create)];
        let reply = wire.compound(&credential(claim.actor.user), 2, &ask).await;
        let (a, victim) = (claim.actor, claim.victim);
        self.log.push(format!("{a:?} confirms the record of host {victim}: {:?}", reply.status()));
        self.is_alive(victim).await?;
        // It may have come back under another name: then there was nothing of it to take.
        if reply.status() == NfsStat::OK
            && self.hosts[victim].owner(victim).owner == claim.options.owner
        {
            return fault(format!("{a:?} takes the place of host {victim}"));
        }
        Ok(())
    }

    /// DESTROY_CLIENTID of whatever client, from anywhere: that of a client with a session is in
    /// use.
    pub async fn destroy(&mut self, a: Actor) -> Result<(), Fault> {
        let victim = self.random.index(self.hosts.len());
        let Some(client) = &self.hosts[victim].client else { return Ok(()) };
        let op = OpArgs::DestroyClientid(DestroyClientidArgs { clientid: client.clientid });
        let from = self.hosts[a.host].address;
        let mut wire = Wire::connect_from(from, self.cluster.address()).await;
        let reply = wire.compound(&credential(a.user), 2, &[op]).await;
        let what = format!("DESTROY_CLIENTID of host {victim}");
        self.judge(a, &what, Verdict::Forbidden, Some(&reply))?;
        self.is_alive(victim).await
    }

    /// The host's client goes for a while: its session ends, its record stays.
    async fn leave(&mut self, host: HostId) -> Result<(), Fault> {
        let Some(mut client) = self.hosts[host].client.take() else { return Ok(()) };
        let destroy = OpArgs::DestroySession(DestroySessionArgs { sessionid: client.sessionid });
        let status = client.bare(&[destroy]).await.status();
        self.log.push(format!("host {host} leaves: {status:?}"));
        Ok(())
    }

    /// The host starts anew: what it had is gone.
    pub async fn start_anew(&mut self, host: HostId) -> Result<(), Fault> {
        if self.hosts[host].policy == Policy::Nothing {
            return Ok(());
        }
        self.hosts[host].verifier += 1;
        self.hosts[host].client = None;
        self.log.push(format!("host {host} starts anew"));
        self.held.forget(host);
        self.come(host).await.map(drop)
    }

    /// The export treats a host in another way from here on. Only who holds nothing that others
    /// may want back is shut out: he could not give it back.
    pub fn change_export(&mut self) {
        let host = 1 + self.random.index(self.hosts.len() - 1);
        let policy = POLICIES[self.random.index(POLICIES.len())];
        if policy == Policy::Nothing && self.held.anything(host) {
            return;
        }
        self.log.push(format!("the export treats host {host} as {policy:?}"));
        self.treat(host, policy);
    }

    /// The server is killed, and starts again; all come back and reclaim, or try to.
    pub async fn restart(&mut self) -> Result<(), Fault> {
        self.log.push("the server is killed".to_owned());
        self.figures.restarts += 1;
        // Who is shut out cannot come back, and grace would wait for him.
        for host in 0..self.hosts.len() {
            if self.hosts[host].policy == Policy::Nothing && self.hosts[host].has_held {
                self.treat(host, Policy::RootSquash);
            }
        }
        // Recalls under way are tasks of this process, which does not end: they are let finish.
        for _ in 0..ROUNDS {
            self.answer_callbacks().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].client = None;
            self.hosts[host].may_reclaim = self.hosts[host].has_held;
            self.held.forget(host);
        }
        self.held.storage.iter_mut().for_each(|s| s.is_old = true);
        self.cluster.restart().await;
        self.in_grace = true;
        let back: Vec<_> =
            (0..self.hosts.len()).filter(|h| self.hosts[*h].policy != Policy::Nothing).collect();
        for host in &back {
            self.come(*host).await?;
        }
        for _ in 0..RECLAIMS * back.len() {
            let host = self.random.choose(&back).expect("one is always served");
            let a = Actor { host, user: self.random.index(USERS.len()) };
            let (access, delegation) =
                (1 + self.random.index(3) as u32, self.random.index(2) as u32);
            let Some(id) = self.any(|n| n.is_file()) else { break };
            self.open_file(a, (None, id), access, By::Reclaim(delegation)).await?;
            self.figures.acts += 1;
        }
        self.in_grace = false;
        for host in back {
            let done = self.ask(Actor { host, user: 0 }, &[reclaim_complete()]).await?;
            let status = done.map(|r| r.status());
            self.log.push(format!("host {host} has reclaimed all: {status:?}"));
        }
        self.after_grace().await
    }
}
