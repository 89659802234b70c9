//! Every documented key, every default, and what a mistake is answered with.

use std::collections::BTreeSet;

use super::*;

const DOCS: &str = include_str!("../../../docs/configuration.md");

fn mds(text: &str) -> Result<MdsConfig, ConfigError> {
    MdsConfig::parse(Path::new("mds.toml"), text)
}

fn ds(text: &str) -> Result<DsConfig, ConfigError> {
    DsConfig::parse(Path::new("ds.toml"), text)
}

/// The ```toml block of the documentation that follows these words, for the n-th time.
fn block(words: &str, n: usize) -> &'static str {
    let block = DOCS.split(words).nth(n + 1).unwrap().split("```toml\n").nth(1).unwrap();
    block.split("```").next().unwrap()
}

/// What is documented with everything set: for the metadata server, and for data servers.
fn example(n: usize) -> &'static str {
    block("Everything set:\n", n)
}

/// Keys of a TOML text with the tables they are in, array items as one.
fn keys(text: &str) -> BTreeSet<String> {
    fn walk(at: &str, value: &toml::Value, out: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(key, value)| {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                walk(&at, value, out);
            }),
            toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
                items.iter().for_each(|item| walk(at, item, out));
            }
            _ => {
                out.insert(at.to_owned());
            }
        }
    }
    let mut out = BTreeSet::new();
    walk("", &toml::Value::Table(text.parse().unwrap()), &mut out);
    out
}

/// First cells of the rows of the table below a heading: the documented keys.
fn documented(heading: &str) -> BTreeSet<String> {
    let section = DOCS.split(&format!("## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

/// How a cluster is opened is documented as it works.
#[test]
fn nodes_that_need_no_root() {
    let c = mds(block("### Machines whose programs need no root\n", 0)).unwrap();
    let [nodes, admin] = &c.export.clients[..] else { panic!("{:?}", c.export.clients) };
    assert_eq!((nodes.privileged_ports, nodes.root_squash), (Some(false), None));
    assert_eq!((admin.privileged_ports, admin.root_squash), (None, Some(false)));
}

/// Without a file everything has the documented default.
#[test]
fn nothing_needs_to_be_configured() {
    let c = mds("").unwrap();
    assert_eq!(c, MdsConfig::default());
    assert_eq!((c.grace_s(), c.stripe_width(), c.lease_s), (90, 1, 90));
    assert!(c.threads() >= 1);
    assert_eq!((c.admin_listen, c.admin_socket().to_str()), (None, Some(ADMIN_SOCKET)));
    assert_eq!(ds("id = 1").unwrap(), DsConfig::default());
    let lots: String = (1..=9)
        .map(|i| format!("[[data_server]]\nid={i}\ncontrol=\"10.0.0.{i}:2050\"\n"))
        .collect();
    assert_eq!(mds(&lots).unwrap().stripe_width(), 8);
    assert_eq!(mds(&format!("stripe_width = 9\n{lots}")).unwrap().stripe_width(), 9);
}

/// The documented example sets every documented key, to something else than the default, and is
/// read as what it says.
#[test]
fn every_documented_mds_key_is_read() {
    assert_eq!(keys(example(0)), documented("Metadata server"));
    let expected = MdsConfig {
        listen: "[::]:3049".parse().unwrap(),
        dir: "/srv/weft/mds".into(),
        admin_socket: Some("/run/weft/other.sock".into()),
        admin_group: Some("weft".into()),
        admin_listen: Some("10.0.0.1:9000".parse().unwrap()),
        admin_token_file: Some("/srv/weft/token".into()),
        cluster_secret_file: "/srv/weft/secret".into(),
        lease_s: 60,
        grace_s: Some(30),
        stripe_unit_bytes: 4 << 20,
        stripe_width: Some(1),
        layout_type: LayoutTypeKind::FlexFiles,
        threads: Some(4),
        idle_limit_s: 20,
        disk_reserve_bytes: 1 << 30,
        state_memory_bytes: Some(512 << 20),
        engine: EngineKind::Redb,
        commit: CommitConfig { low: 1, high: 8, linger_us: 500, coalesce: false },
        small_files: SmallFilesConfig {
            stuffing_limit_bytes: 16 << 10,
            threshold_bytes: 32 << 10,
            adaptive: false,
            gather: false,
        },
        object_creation: ObjectCreationKind::Precreate,
        precreate: PrecreateConfig { low: 100, batch: 200 },
        export: ExportConfig {
            root_squash: true,
            all_squash: true,
            anonymous_uid: 1000,
            anonymous_gid: 1001,
            security: vec![Flavor::Sys],
            privileged_ports: false,
            server_groups: true,
            readers_deny: true,
            directory_delegations: true,
            write_delegations: false,
            clients: vec![
                ClientConfig {
                    networks: vec!["10.0.0.7".parse().unwrap()],
                    access: ClientAccess::None,
                    root_squash: None,
                    all_squash: None,
                    privileged_ports: None,
                },
                ClientConfig {
                    networks: vec![
                        "10.0.0.0/24".parse().unwrap(),
                        "2001:db8::/32".parse().unwrap(),
                    ],
                    access: ClientAccess::ReadWrite,
                    root_squash: Some(false),
                    all_squash: Some(false),
                    privileged_ports: Some(true),
                },
                ClientConfig {
                    networks: vec!["0.0.0.0/0".parse().unwrap()],
                    access: ClientAccess::ReadOnly,
                    root_squash: None,
                    all_squash: None,
                    privileged_ports: None,
                },
            ],
        },
        names: NamesConfig {
            domain: Some("example.org".into()),
            host: true,
            answer: true,
            users: vec![NamedId { name: "backup".into(), id: 34 }],
            groups: vec![NamedId { name: "staff".into(), id: 50 }],
        },
        data_servers: vec![
            DataServerConfig {
                id: 1,
                control: SocketAddr::from(([10, 0, 0, 5], 2050)).into(),
                addresses: [[10, 0, 0, 5], [10, 1, 0, 5]]
                    .map(|ip| AnnouncedAddress {
                        at: SocketAddr::from((ip, 2050)).into(),
                        prefix_bits: Some(24),
                    })
                    .into(),
                uuid: None,
            },
            DataServerConfig {
                id: 2,
                control: SocketAddr::from(([10, 0, 0, 6], 2050)).into(),
                addresses: Vec::new(),
                uuid: Some([0xab; 16]),
            },
        ],
    };
    let read = mds(example(0)).unwrap();
    assert_eq!(read, expected);
    let ahead = Precreate { low: 100, batch: 200 };
    assert_eq!(read.creation(), ObjectCreation::Precreate(ahead));
    assert_eq!((read.grace_s(), read.stripe_width(), read.threads()), (30, 1, 4));
    assert_eq!(read.state_memory(), 512 << 20);
}

/// The same for data servers.
#[test]
fn every_documented_ds_key_is_read() {
    assert_eq!(keys(example(1)), documented("Data server"));
    let expected = DsConfig {
        listen: "10.0.0.5:2051".parse().unwrap(),
        dir: "/srv/weft/ds".into(),
        id: 7,
        adopt: None,
        cluster_secret_file: "/srv/weft/secret".into(),
        threads: Some(2),
        idle_limit_s: 30,
        disk_reserve_bytes: 512 << 20,
        cache: CacheKind::Direct,
        state_memory_bytes: Some(32 << 20),
        local_sockets: Some("/run/weft-local".into()),
    };
    assert_eq!(ds(example(1)).unwrap(), expected);
}

/// A mistake is answered with the file, the line, and what is allowed.
#[test]
fn mistakes_are_explained() {
    let server = |rest: &str| format!("[[data_server]]\nid = 1\ncontrol = \"10.0.0.1:1\"\n{rest}");
    let client = |rest: &str| format!("[[export.client]]\naccess = \"rw\"\n{rest}");
    let rows: &[(&str, &[&str])] = &[
        ("lease = 5", &["line 1", "unknown field `lease`", "`lease_s`"]),
        ("\nlease_s = 9", &["line 2", "9 is not from 10 to 3600"]),
        ("lease_s = 3601", &["3601 is not from 10 to 3600"]),
        ("lease_s = -1", &["-1 is not from 10"]),
        ("lease_s = \"90\"", &["line 1", "string"]),
        ("grace_s = 9", &["9 is not from 10 to 3600"]),
        ("threads = 0", &["0 is not from 1 to 256"]),
        ("threads = 257", &["257 is not from 1 to 256"]),
        ("stripe_unit = \"1MB\"", &["line 1", "multiple of 1MiB from 1MiB to 64MiB"]),
        ("stripe_unit = \"65MiB\"", &["multiple of 1MiB"]),
        ("stripe_unit = \"1536KiB\"", &["multiple of 1MiB"]),
        ("stripe_unit = 0", &["multiple of 1MiB"]),
        ("stripe_unit = \"99999999999999999999GiB\"", &["multiple of 1MiB"]),
        ("stripe_unit = true", &["a size: a number of bytes, or \"4MiB\""]),
        ("state_memory = \"15MiB\"", &["line 1", "from 16MiB to 1024GiB"]),
        ("state_memory = \"1025GiB\"", &["from 16MiB to 1024GiB"]),
        ("stripe_width = 0", &["0 is not from 1 to 100"]),
        ("stripe_width = 2", &["stripe_width = 2", "0 data_server", "at most"]),
        ("layout_type = \"blocks\"", &["layout_type", "files", "flexfiles"]),
        ("engine = \"sqlite\"", &["line 1", "`fjall`", "`redb`"]),
        ("listen = \"local host\"", &["is not an address", "192.0.2.7:2049"]),
        ("object_creation = \"lazy\"", &["line 1", "`implicit`, `eager`, `precreate`"]),
        ("[precreate]\nlow = 0", &["line 2", "0 is not from 1 to 16384"]),
        ("[precreate]\nlow = 16385", &["16385 is not from 1 to 16384"]),
        ("[precreate]\nbatch = 1025", &["1025 is not from 1 to 1024"]),
        ("[commit]\nlow = 0", &["line 2", "0 is not from 1"]),
        ("[commit]\nlow = 9\nhigh = 8", &["low = 9 is above high = 8"]),
        ("[commit]\nlinger = 1", &["line 2", "unknown field `linger`", "`linger_us`"]),
        ("[commit]\nlinger_us = 10001", &["line 2", "10001 is not from 0 to 10000"]),
        ("[export]\nroot_squash = 1", &["line 2", "boolean"]),
        ("[export]\nsquash = true", &["unknown field `squash`", "`all_squash`"]),
        ("[export]\nsecurity = [\"krb5\"]", &["line 2", "unknown variant `krb5`", "`sys`"]),
        ("[export]\nsecurity = [\"none\"]", &["line 2", "\"sys\" must be among them"]),
        ("[[export.client]]\naccess = \"rw\"", &["missing field `networks`"]),
        (&client("networks = [\"10.0.0.0/33\"]"), &["line 3", "ADDRESS/PREFIX"]),
        (&client("networks = []\nacess = 1"), &["unknown field `acess`", "`access`"]),
        ("[[export.client]]\nnetworks = []\naccess = \"w\"", &["line 3", "`rw`, `ro`, `none`"]),
        ("[names]\ndomain = \"\"", &["line 2", "example.org"]),
        ("[names]\ndomain = \"a@b\"", &["line 2", "no @"]),
        ("[[names.user]]\nname = \"a\"\nid = -1", &["line 3", "-1"]),
        ("[[data_server]]\nid = 1", &["line 1", "missing field `control`"]),
        ("[[data_server]]\nid = 0\ncontrol = \"1.1.1.1:1\"", &["line 2", "not from 1"]),
        (
            &server("addresses = [\"10.0.0.5/33\"]"),
            &["line 4", "clients can be told", "10.0.0.5:2050/24"],
        ),
        (&server("adresses = []"), &["line 4", "unknown field `adresses`", "`addresses`"]),
        (&server(&server("")), &["id = 1 is given twice"]),
        ("admin_listen = \"10.0.0.1\"", &["openssl rand -hex 32", "admin_token_file = \"FILE\""]),
        (&server("[[data_server]]\nid=2\ncontrol=\"10.0.0.1:1\""), &["10.0.0.1:1", "twice"]),
        ("dir = ", &["line 1"]),
    ];
    for (text, parts) in rows {
        let message = mds(text).expect_err(text).to_string();
        assert!(message.starts_with("mds.toml: "), "{message}");
        for part in *parts {
            assert!(message.contains(part), "{text:?} was answered with {message}");
        }
    }
    let message = ds("id = 0\n").unwrap_err().to_string();
    assert!(message.starts_with("ds.toml: ") && message.contains("not from 1"), "{message}");
    let missing = DsConfig::load(Path::new("/nonexistent/ds.toml")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/ds.toml: No such file"), "{missing}");
}

/// One message in full, as a user sees it.
#[test]
fn a_message_in_full() {
    let message = mds("lease_s = 60\nlease_s_max = 5\n").unwrap_err().to_string();
    let first: Vec<&str> = message.lines().take(5).collect();
    assert_eq!(
        first,
        [
            "mds.toml: TOML parse error at line 2, column 1",
            "  |",
            "2 | lease_s_max = 5",
            "  | ^^^^^^^^^^^",
            message.lines().nth(4).unwrap(),
        ]
    );
    assert!(first[4].starts_with("unknown field `lease_s_max`, expected one of `listen`, `dir`"));
}

/// Sizes in words, both sides of the limits.
#[test]
fn sizes_are_read() {
    for (text, bytes) in [
        ("1048576", 1 << 20),
        ("\"1MiB\"", 1 << 20),
        ("\"64 MiB\"", 64 << 20),
        ("\"1024KiB\"", 1 << 20),
    ] {
        let config = mds(&format!("stripe_unit = {text}")).unwrap();
        assert_eq!(config.stripe_unit_bytes, bytes, "{text}");
    }
}

/// Addresses are written as people write them: with or without port, as names, in brackets.
#[test]
fn addresses_have_default_ports() {
    let text = "listen = \"localhost\"\nadmin_listen = \"[::1]\"\nadmin_token_file = \"t\"\n\
                [[data_server]]\nid = 1\ncontrol = \"ds1.lab\"\n\
                [[data_server]]\nid = 2\ncontrol = \"ds1.lab:2051\"\n\
                addresses = [\"10.0.0.5/24\", \"ds1.fast.lab/16\", \"2001:db8::5/64\", \
                \"[::]:7\"]\n\
                [[data_server]]\nid = 3\ncontrol = \"[2001:db8::7]\"\n\
                [[data_server]]\nid = 4\ncontrol = \"10.0.0.1\"\n";
    let read = mds(text).unwrap();
    assert!(read.listen.ip().is_loopback() && read.listen.port() == 2049);
    assert_eq!(read.admin_listen, Some("[::1]:8049".parse().unwrap()));
    let controls: Vec<_> = read.data_servers.iter().map(|d| d.control.to_string()).collect();
    assert_eq!(controls, ["ds1.lab:2050", "ds1.lab:2051", "[2001:db8::7]:2050", "10.0.0.1:2050"]);
    let told: Vec<_> = read.data_servers[1].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["10.0.0.5:2050/24", "ds1.fast.lab:2050/16", "[2001:db8::5]:2050/64", "[::]:7"]
    );
    for wrong in [
        "",
        "10.0.0.5:0",
        "10.0.0.5:70000",
        "10.0.0.5/33",
        "10.0.0.5/",
        "10.0.0.5/-1",
        "10.0.0.5/8/8",
        "[::1]:1/129",
        "a b",
        "10.0.0.256",
        ":2050",
    ] {
        let text = format!("[[data_server]]\nid = 1\ncontrol = \"a\"\naddresses = [\"{wrong}\"]");
        let e = mds(&text).unwrap_err().to_string();
        assert!(e.contains("10.0.0.5:2050/24"), "{wrong}: {e}");
    }
    let e = mds("listen = \"no-such-host.invalid\"").unwrap_err().to_string();
    assert!(e.contains("no such host no-such-host.invalid"), "{e}");
    let e = mds("[[data_server]]\nid = 1\ncontrol = \":2050\"").unwrap_err().to_string();
    assert!(e.contains("name the data server's machine"), "{e}");
    assert_eq!(
        DsConfig::parse("x".as_ref(), "id = 3\nlisten = \"10.0.0.1\"").unwrap().listen.port(),
        2050
    );
}

/// What a running server takes from a changed file, and what it says it cannot: each key by name.
#[test]
fn what_a_reload_may_change() {
    const ONE: &str = "[[data_server]]\nid = 1\ncontrol = \"10.0.0.1\"\n";
    const TWO: &str = "[[data_server]]\nid = 2\ncontrol = \"10.0.0.2\"\n";
    let old = MdsConfig::default();
    let changed = |text: &str| old.fixed_keys_changed(&mds(text).unwrap());
    for text in [
        "",
        "grace_s = 20",
        "[export]\nroot_squash = true",
        "[[export.client]]\nnetworks = [\"10.0.0.0/8\"]\naccess = \"ro\"",
        "[small_files]\nwrite_threshold = 0",
        ONE,
        "stripe_unit = \"2MiB\"",
    ] {
        assert_eq!(changed(text), [""; 0], "{text}");
    }
    for (text, keys) in [
        ("lease_s = 20\nengine = \"redb\"", &["lease_s", "engine"][..]),
        ("listen = \"127.0.0.1:1\"", &["listen"]),
        ("disk_reserve = 0", &["disk_reserve"]),
        ("layout_type = \"flexfiles\"", &["layout_type"]),
        ("state_memory = \"64MiB\"", &["state_memory"]),
        ("[small_files]\nstuffing_limit = 0", &["small_files"]),
        ("[names]\ndomain = \"example.org\"", &["names"]),
    ] {
        assert_eq!(changed(text), keys, "{text}");
    }
    let wide = mds(&format!("stripe_width = 2\nlayout_type = \"flexfiles\"\n{ONE}{TWO}"));
    let wide = wide.unwrap_err().to_string();
    assert!(wide.contains("flexfiles") && wide.contains("leave stripe_width out"), "{wide}");
    let one = mds(ONE).unwrap();
    let changed = |text: &str| one.fixed_keys_changed(&mds(text).unwrap());
    for more in [ONE, &format!("{TWO}{ONE}"), &format!("stripe_width = 2\n{ONE}{TWO}")] {
        assert_eq!(changed(more), [""; 0], "{more}");
    }
    let elsewhere = ONE.replace("10.0.0.1", "10.0.0.3");
    for other in ["", TWO, &elsewhere, &format!("{ONE}addresses = [\"10.0.0.1\"]")] {
        assert_eq!(changed(other), ["a data_server that there was"], "{other}");
    }
}

/// The file of the other role is named as such, also if it has nothing that the role does not know;
/// and a data server without a number is none.
#[test]
fn files_of_the_other_role() {
    for text in ["lease_s = 60", "[[data_server]]\nid = 1\ncontrol = \"a\""] {
        let e = ds(text).unwrap_err().to_string();
        assert!(e.contains("ds.toml: this is the configuration of a metadata server"), "{e}");
    }
    let e = mds("id = 1").unwrap_err().to_string();
    assert!(e.contains("this is the configuration of a data server (weft ds"), "{e}");
    for text in ["", "dir = \"/srv/weft/mds\""] {
        let e = ds(text).unwrap_err().to_string();
        assert!(e.contains("id is missing"), "{e}");
    }
}
