//! URLs read, refused, and written out again.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn url(text: &str) -> Url {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> String {
    text.parse::<Url>().expect_err(text).to_string()
}

/// Hosts of every kind, ports, paths with any byte, and options are read.
#[test]
fn urls_are_read() {
    let plain = url("weft://fs.example.org");
    let name = Host::Name("fs.example.org".into());
    assert_eq!((plain.host, plain.port, plain.path.as_os_str()), (name, 2049, "/".as_ref()));
    let v6 = url("weft://[2001:db8::7]:20049/a%20b/%ff%25#1");
    assert_eq!((v6.host.to_string().as_str(), v6.port), ("[2001:db8::7]", 20049));
    assert_eq!(v6.path.as_os_str().as_bytes(), b"/a b/\xff%#1");
    let v4 = url("weft://192.0.2.7/d?layouts=false&patience=0.5&slots=9&gather_below=4096");
    assert_eq!(v4.host, Host::Ip([192, 0, 2, 7].into()));
    let wanted = UrlOptions {
        layouts: Some(false),
        patience: Some(Duration::from_millis(500)),
        slots: Some(9),
        gather_below: Some(4096),
        ..UrlOptions::default()
    };
    assert_eq!(v4.options, wanted);
    assert_eq!(url("weft://h?minorversion=1").options.minorversion, Some(1));
}

/// What is wrong is named, and what to write.
#[test]
fn mistakes_are_named() {
    for (text, named, instead) in [
        ("nfs://h/p", "nfs://h/p", "weft://HOST/PATH"),
        ("weft:///p", "names no server", "weft://localhost/data"),
        ("weft://:2049/p", "names no server", "weft://localhost/data"),
        ("weft://2001:db8::7/p", "2001:db8::7", "brackets"),
        ("weft://[::1/p", "[::1", "brackets"),
        ("weft://[::1]x/p", "[::1]x", "brackets"),
        ("weft://10.0.0.256/p", "10.0.0.256", "192.0.2.7"),
        ("weft://me@h/p", "me@h", "a name or an address"),
        ("weft://h:/p", "\"\" is no port", "2049"),
        ("weft://h:65536/p", "65536", "65535"),
        ("weft://h:0/p", "\"0\"", "65535"),
        ("weft://h/a%2", "/a%2", "%25"),
        ("weft://h/a%zz", "/a%zz", "%25"),
        ("weft://h/a%00", "/a%00", "not %00"),
        ("weft://h/?layout=true", "\"layout\"", "layouts, eager"),
        ("weft://h/?layouts", "\"layouts\" has no value", "OPTION=VALUE"),
        ("weft://h/?layouts=yes", "layouts=yes", "true or false"),
        ("weft://h/?slots=257", "slots=257", "from 1 to 256"),
        ("weft://h/?slots=0", "slots=0", "from 1 to 256"),
        ("weft://h/?minorversion=3", "minorversion=3", "1 or 2"),
        ("weft://h/?patience=-1", "patience=-1", "seconds"),
        ("weft://h/?patience=86401", "patience=86401", "86400"),
        ("weft://h/?cache_bytes=1099511627777", "cache_bytes", "1099511627776"),
        ("weft://h/?gather_below=4294967296", "gather_below", "4294967295"),
        ("weft://h/?eager=true&eager=true", "twice", "once"),
    ] {
        let said = refused(text);
        assert!(said.contains(named) && said.contains(instead), "{text}: {said}");
    }
    let long = format!("{SCHEME}h/{}", "a".repeat(URL_BYTES_MAX));
    assert!(refused(&long).contains("too long"));
    let longest = long.get(..URL_BYTES_MAX).unwrap();
    assert_eq!(url(longest).path.as_os_str().len(), URL_BYTES_MAX - SCHEME.len() - 1);
}

fn options() -> impl Strategy<Value = UrlOptions> {
    let seconds = || proptest::option::of((0u64..=86_400_000).prop_map(Duration::from_millis));
    let bytes = || any::<Option<u32>>();
    let truth = || any::<Option<bool>>();
    let memory = proptest::option::of(0u64..=1 << 40);
    let numbers = (proptest::option::of(1u32..=2), proptest::option::of(1u32..=256));
    let truths = (truth(), truth(), truth(), truth());
    let dir = "/[a-z/.-]{0,20}".prop_map(|dir| LocalSockets::In(dir.into()));
    let local = proptest::option::of(prop_oneof![Just(LocalSockets::Off), dir]);
    (numbers, truths, seconds(), seconds(), (bytes(), bytes(), memory, local)).prop_map(
        |(
            (minorversion, slots),
            (layouts, eager, cache, delegations),
            patience,
            data_server_patience,
            sizes,
        )| {
            let (gather_below, read_ahead, cache_bytes, local) = sizes;
            UrlOptions {
                minorversion,
                layouts,
                eager,
                slots,
                patience,
                data_server_patience,
                cache,
                cache_bytes,
                gather_below,
                read_ahead,
                delegations,
                local,
            }
        },
    )
}

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![
        any::<IpAddr>().prop_map(Host::Ip),
        "[a-z][a-z0-9-]{0,20}(\\.[a-z0-9]{1,9}){0,3}".prop_map(Host::Name),
    ]
}

proptest! {
    /// A URL written out and read again is the same.
    #[test]
    fn written_and_read_it_is_the_same(
        host in host(),
        port in 1u16..,
        names in proptest::collection::vec(1u8.., 0..60),
        options in options(),
    ) {
        let path = PathBuf::from(OsString::from_vec([b"/", &names[..]].concat()));
        let written = Url { host, port, path, options };
        prop_assert_eq!(written.to_string().parse(), Ok(written));
    }

    /// Whatever is written, it is read or refused; what is read is read the same next time.
    #[test]
    fn any_text_is_read_or_refused(text in "(weft://)?[a-z0-9.:\\[\\]/%?=&@#é-]{0,40}") {
        if let Ok(url) = text.parse::<Url>() {
            prop_assert_eq!(url.to_string().parse(), Ok(url));
        }
    }
}
