//! READDIR: RFC 8881 §18.23.

use std::collections::BTreeSet;

use weft_nfs::{AttrNo, FileHandle, NfsStat, OpArgs, Verifier, ops::*};

use crate::support::*;

const ATTRS: [AttrNo; 3] = [AttrNo::TYPE, AttrNo::FILEID, AttrNo::RDATTR_ERROR];

/// Makes named pipes `from..to` in a directory, many to a COMPOUND.
async fn fill(c: &mut Client, dir: &FileHandle, from: usize, to: usize) {
    let names: Vec<_> = (from..to).collect();
    for some in names.chunks(14) {
        let mut ops = c.compound().putfh(dir).savefh();
        for n in some {
            let make = create(CreateType::Fifo, &format!("entry{n}"), mode(0o600));
            ops = ops.op(make).restorefh();
        }
        ops.send().await.ok();
    }
}

async fn page(c: &mut Client, dir: &FileHandle, cookie: u64, maxcount: u32) -> ReaddirOk {
    let list = OpArgs::Readdir(readdir(cookie, maxcount, &ATTRS));
    let reply = c.compound().putfh(dir).op(list).send().await.ok();
    let head = 12 + 44 + 8 + 8;
    assert!(reply.raw.len() - head <= maxcount as usize, "maxcount bounds READDIR4resok");
    reply.readdir()
}

/// The rest of a directory after a cookie.
async fn rest(c: &mut Client, dir: &FileHandle, mut cookie: u64, maxcount: u32) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let page = page(c, dir, cookie, maxcount).await;
        assert!(page.eof || !page.entries.is_empty(), "a page that leads nowhere");
        for e in page.entries {
            assert!(e.cookie > cookie && e.cookie > 2, "cookies ascend above the reserved ones");
            assert_eq!(e.attrs.mask(), weft_nfs::Bitmap::of(&ATTRS));
            cookie = e.cookie;
            names.push(String::from_utf8(e.name.0.to_vec()).unwrap());
        }
        if page.eof {
            return names;
        }
    }
}

/// A directory without entries is at its end at once.
#[tokio::test]
async fn empty_directory() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    let page = page(&mut c, &dir, 0, 4096).await;
    assert!(page.eof && page.entries.is_empty());
}

/// Cookies and verifiers that were never given out, and sizes that hold no entry.
#[tokio::test]
async fn arguments() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    fill(&mut c, &dir, 0, 3).await;
    let first = page(&mut c, &dir, 0, 4096).await.entries[0].cookie;
    let bad_verifier = ReaddirArgs { cookieverf: Verifier([1; 8]), ..readdir(first, 4096, &[]) };
    let cases = [
        (readdir(1, 4096, &[]), NfsStat::BAD_COOKIE),
        (readdir(2, 4096, &[]), NfsStat::BAD_COOKIE),
        (bad_verifier, NfsStat::NOT_SAME),
        (readdir(0, 0, &[]), NfsStat::TOOSMALL),
        (readdir(0, 16, &[]), NfsStat::TOOSMALL),
        (readdir(0, 47, &[]), NfsStat::TOOSMALL),
        (readdir(u64::MAX, 4096, &[]), NfsStat::OK),
    ];
    for (args, status) in cases {
        let what = format!("{args:?}");
        let reply = c.compound().putfh(&dir).op(OpArgs::Readdir(args)).send().await;
        assert_eq!(reply.status(), status, "{what}");
    }
    // Exactly the first entry: cookie, name of six bytes, empty attributes, and the frame.
    let one = readdir(0, 16 + 4 + 8 + 4 + 8 + 4 + 4, &[]);
    let reply = c.compound().putfh(&dir).op(OpArgs::Readdir(one)).send().await.ok();
    let page = reply.readdir();
    assert_eq!((page.entries.len(), page.eof), (1, false));
    let secret = create(CreateType::Directory, "secret", mode(0o711));
    c.compound().putrootfh().op(secret).send().await.ok();
    let list = OpArgs::Readdir(readdir(0, 4096, &[]));
    c.by_user(1000).putrootfh().lookup("secret").op(list).expect(NfsStat::ACCESS).await;
}

/// Ten thousand entries come once each, whatever the size of the pages.
#[tokio::test]
async fn ten_thousand_entries() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    fill(&mut c, &dir, 0, 10_000).await;
    for maxcount in [4096, 65_536, 1 << 20] {
        let names = rest(&mut c, &dir, 0, maxcount).await;
        assert_eq!(names.len(), 10_000);
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 10_000);
    }
}

/// Entries that come and go during a listing; those that stay are seen exactly once.
#[tokio::test]
async fn changes_during_a_listing() {
    let cluster = Cluster::start().await;
    let mut c = Client::mount(&cluster, "a").await;
    let dir = c.public_dir("d").await;
    fill(&mut c, &dir, 0, 300).await;
    let first = page(&mut c, &dir, 0, 4096).await;
    let seen: Vec<_> = first.entries.iter().map(|e| e.name.0.clone()).collect();
    let last = first.entries.last().unwrap();
    assert!(seen.len() > 10 && seen.len() < 200);
    // The entry that the cookie names goes too.
    let at = String::from_utf8(last.name.0.to_vec()).unwrap();
    for name in ["entry0", "entry200", "entry299", &at] {
        c.compound().putfh(&dir).op(remove(name)).send().await.ok();
    }
    fill(&mut c, &dir, 300, 310).await;
    let names = rest(&mut c, &dir, last.cookie, 4096).await;
    let unique: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(unique.len(), names.len());
    let expected = (seen.len()..310).filter(|n| ![200, 299].contains(n));
    let expected: BTreeSet<_> = expected.map(|n| format!("entry{n}")).collect();
    assert_eq!(unique, expected);
}

/// A listing as long as a reply may be is made in parts: others on the same thread are answered
/// meanwhile.
#[tokio::test]
async fn others_are_answered_during_a_long_listing() {
    const ENTRIES: usize = 6000;
    const OTHERS: usize = 12;
    const TRIES: usize = 9;
    let cluster = Cluster::start().await;
    let mut lister = Client::mount(&cluster, "lister").await;
    let dir = lister.public_dir("d").await;
    fill(&mut lister, &dir, 0, ENTRIES).await;
    // More than the server has threads, so that some share that of the lister.
    let mut others = Vec::new();
    for n in 0..OTHERS {
        others.push(Client::mount(&cluster, &format!("other{n}")).await);
    }
    let mut answered_first = 0;
    for _ in 0..TRIES {
        let listing = async {
            let listed = page(&mut lister, &dir, 0, 1 << 20).await.entries.len();
            assert_eq!(listed, ENTRIES);
            std::time::Instant::now()
        };
        let asking = async {
            tokio::task::yield_now().await;
            for other in &mut others {
                other.renew().await.ok();
            }
            std::time::Instant::now()
        };
        let (listed, answered) = tokio::join!(listing, asking);
        answered_first += usize::from(answered < listed);
    }
    assert!(answered_first > TRIES / 2, "{answered_first} of {TRIES}");
}
