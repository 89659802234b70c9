//! What is said of entries on the wire, and by which names.

use std::sync::Arc;

use super::*;
use crate::export::names::{Answer, Host, Naming, Question};

#[derive(Debug)]
struct NoHost;

impl Host for NoHost {
    fn ask(&self, _: &Question) -> std::io::Result<Answer> {
        Err(std::io::Error::other("nobody is to be asked"))
    }
}

fn names() -> Names {
    let naming = Naming {
        domain: Some("lab".into()),
        users: vec![("ann".into(), 7)],
        groups: vec![("ann".into(), 70)],
        host: false,
        answer: true,
    };
    Names::new(naming, Arc::new(NoHost))
}

/// Names become ids of users or of groups, and are told again where there are some.
#[tokio::test]
async fn names_are_of_users_or_groups() {
    let ace = |flag, who: &'static [u8]| Ace {
        acetype: AceType::ALLOW,
        flag,
        access_mask: 1,
        who: Opaque(Bytes::from_static(who)),
    };
    let group = ace_flag::IDENTIFIER_GROUP;
    let aces = [ace(0, b"ann@lab"), ace(group, b"ann@lab"), ace(group, b"8"), ace(group, GROUP)];
    let names = names();
    let acl = from_wire(&aces, Form::Plain, &names).await.unwrap();
    let whos: Vec<_> = acl.entries().iter().map(|entry| entry.who).collect();
    assert_eq!(whos, [Who::User(7), Who::Members(70), Who::Members(8), Who::Group]);
    assert_eq!(to_wire(acl.entries(), &names), aces);
    let unknown = from_wire(&[ace(0, b"bob@lab")], Form::Plain, &names).await;
    assert_eq!(unknown.unwrap_err().status, NfsStat::BADOWNER);
}
