//! What servers write to their logs.

mod support;

use std::{
    fs::{self, File},
    process::{Command, Stdio},
    time::Duration,
};

use support::{until, weft_binary};

/// A log that goes to a file is plain text, without the colours that a terminal gets.
#[test]
fn a_log_in_a_file_has_no_colours() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let secret = Command::new("install").args(["-m600", "/dev/null", &path("secret")]).status();
    assert!(secret.unwrap().success());
    fs::write(path("secret"), "0123456789abcdef0123456789abcdef").unwrap();
    let config = format!(
        "listen = \"127.0.0.1:0\"\nadmin_socket = {:?}\ndir = {:?}\n\
         cluster_secret_file = {:?}\n[[data_server]]\nid = 1\ncontrol = \"127.0.0.1:1\"\n",
        path("admin.sock"),
        path("mds"),
        path("secret"),
    );
    fs::write(path("mds.toml"), config).unwrap();
    let made = Command::new(weft_binary()).args(["init", "--config", &path("mds.toml")]).output();
    assert!(made.unwrap().status.success());
    let mut server = Command::new(weft_binary())
        .args(["mds", "--config", &path("mds.toml")])
        .env_remove("NO_COLOR")
        .stdout(Stdio::null())
        .stderr(File::create(path("log")).unwrap())
        .spawn()
        .unwrap();
    let log = until("a line in the log", Duration::from_secs(30), || {
        let log = fs::read_to_string(path("log")).unwrap();
        log.contains("data server not connected").then_some(log)
    });
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!log.contains('\x1b'), "{log:?}");
}
