//! A metadata server as the COMPOUND service sees it.

use weft_nfs::{ClientId, Failure, NfsStat, OpArgs};
use weft_server::{
    compound::{Compound, OpResult, Role},
    core::Core,
    op_table::{Row, Server},
    rpc::{Caller, Conn},
};
use weft_state::ConfirmedClient;

use super::{
    deps::Deps,
    export::{GroupsBy, View},
    handle::Handle,
    ops,
    server::Mds,
    translate,
};

impl Role for Mds {
    type Handle = Handle;
    type Deps = Deps;
    type View = View;
    const SERVER: Server = Server::Mds;

    fn core(&self) -> &Core {
        &self.core
    }

    fn view(&self, conn: &Conn, caller: &Caller) -> View {
        let view = self.export().view(conn, caller);
        if self.data_servers().is_superseded() { view.read_only() } else { view }
    }

    fn serves(&self, view: View) -> Result<(), NfsStat> {
        view.served()
    }

    async fn caller(&self, view: View, caller: Caller) -> Caller {
        match view.groups() {
            _ if !caller.known => caller,
            GroupsBy::Client => caller,
            GroupsBy::HostIfKnown => self.names.with_groups(caller).await,
            GroupsBy::Host => self.names.with_groups_only(caller).await,
        }
    }

    async fn execute<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        row: &'static Row,
        args: OpArgs,
    ) -> OpResult {
        ops::execute(self, c, row, args).await
    }

    async fn durable<'a>(&'a self, c: &'a Compound<Self>) -> Result<(), NfsStat> {
        self.volume().durable(c.deps.lsn()).await.map_err(|e| translate::status(&e))
    }

    async fn client_confirmed(&self, client: &ConfirmedClient) {
        tracing::info!(clientid = client.clientid.0, owner = ?client.owner.ownerid, "client");
        self.protocol.state().admit(client.clientid, client.host);
    }

    async fn clients_gone(&self, clients: Vec<ClientId>) {
        clients.into_iter().for_each(|client| self.clients.drop_client(client));
    }

    fn client_has_state(&self, client: ClientId) -> bool {
        let has_state = self.protocol.state().client_has_state(client);
        has_state || self.protocol.offloads().client_has(client)
    }

    async fn reclaim_complete<'a>(
        &'a self,
        c: &'a mut Compound<Self>,
        client: ClientId,
    ) -> Result<(), Failure> {
        self.clients.records.depend_on_forgotten(&mut c.deps);
        self.clients.reclaim_complete(client)
    }
}
