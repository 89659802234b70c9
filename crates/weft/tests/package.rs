//! The Debian package: built from the program under test, installed into an empty system, and used
//! from there.

mod support;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use support::{repository, require_root, weft_binary, words};

/// Runs a program that must succeed; what it printed.
fn must(command: &mut Command) -> String {
    let output: Output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}\n{}", words(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn build(out: &Path) -> PathBuf {
    let script = repository().join("packaging/deb");
    // The tests' program is large, and nobody keeps this package.
    let mut command = Command::new(script);
    command.arg(weft_binary()).arg(out).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    must(&mut command).trim().into()
}

/// A root directory that dpkg can install to.
fn empty_system(root: &Path) {
    for dir in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in ["var/lib/dpkg/status", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"] {
        fs::write(root.join(file), "").unwrap();
    }
}

fn dpkg(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display()));
    // Its scripts run here, told where the system is; its dependencies are this machine's.
    command.args(["--force-script-chrootless", "--force-depends"]).args(arguments);
    must(&mut command)
}

/// What is installed runs; the user of the servers owns their directory and can read their
/// configuration; removing the package leaves data and configuration.
#[test]
fn it_installs_and_runs() {
    require_root("Installing a package");
    let dir = tempfile::tempdir().unwrap();
    let package = build(dir.path());
    let root = dir.path().join("root");
    empty_system(&root);
    dpkg(&root, &["--install", package.to_str().unwrap()]);
    let version = must(Command::new(root.join("usr/bin/weft")).arg("--version"));
    assert_eq!(version.trim(), format!("weft {}", env!("CARGO_PKG_VERSION")));
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap();
    let weft: Vec<&str> =
        passwd.lines().find(|l| l.starts_with("weft:")).unwrap().split(':').collect();
    let (uid, gid): (u32, u32) = (weft[2].parse().unwrap(), weft[3].parse().unwrap());
    assert_eq!(weft[6], "/usr/sbin/nologin");
    let owner = |path: &str| {
        let meta = fs::metadata(root.join(path)).unwrap();
        (meta.uid(), meta.gid(), meta.mode() & 0o777)
    };
    assert_eq!(owner("var/lib/weft"), (uid, gid, 0o750));
    assert_eq!(owner("etc/weft"), (0, gid, 0o750));
    assert!(root.join("usr/share/doc/weft/admin.md").exists(), "the page that the units name");
    // Again, as an upgrade does.
    dpkg(&root, &["--install", package.to_str().unwrap()]);
    fs::write(root.join("var/lib/weft/data"), "kept").unwrap();
    fs::write(root.join("etc/weft/mds.toml"), "").unwrap();
    dpkg(&root, &["--remove", "weft"]);
    assert!(!root.join("usr/bin/weft").exists());
    assert!(root.join("var/lib/weft/data").exists() && root.join("etc/weft/mds.toml").exists());
}

/// The units start what exists, again when it fails, reload by SIGHUP, and let it open many files;
/// systemd understands every line of them.
#[test]
fn the_units_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    for (unit, instance, command) in [
        ("weft-mds.service", "weft-mds.service", "mds --config /etc/weft/mds.toml"),
        ("weft-ds@.service", "weft-ds@1.service", "ds --config /etc/weft/ds-%i.toml"),
    ] {
        let text = fs::read_to_string(repository().join("packaging").join(unit)).unwrap();
        for line in [
            &format!("ExecStart=/usr/bin/weft {command}"),
            "ExecReload=/bin/kill -HUP $MAINPID",
            "Restart=on-failure",
            "LimitNOFILE=1048576",
            "User=weft",
        ] {
            assert!(text.lines().any(|l| l == line), "{unit}: {line}");
        }
        // The program is not installed here.
        let text = text.replace("/usr/bin/weft", weft_binary().to_str().unwrap());
        let path = dir.path().join(instance);
        fs::write(&path, text).unwrap();
        let verify = Command::new("systemd-analyze").arg("verify").arg(&path).output();
        if let Ok(output) = verify {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let ours = said.lines().filter(|l| l.contains("weft-") && !l.contains("weft.md"));
            let ours: Vec<_> = ours.filter(|l| !l.contains("man:")).collect();
            assert!(ours.is_empty(), "{unit}: {said}");
        }
    }
}
