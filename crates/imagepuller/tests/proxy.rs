//! A network where only a proxy with a password knows the registry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use support::token_server::Running;
use support::{LIMIT, Puller, Site, is_root};
use vm_harness::{Port, Scratch};

/// Starts tinyproxy where `registry.corp` is this machine, which it is nowhere else.
fn start_proxy(scratch: &Scratch) -> (Running, u16) {
    let hosts = scratch
        .write("hosts", "127.0.0.1 localhost registry.corp\n")
        .unwrap();
    let reserved = Port::reserve().unwrap();
    let port = reserved.number();
    let config = format!(
        "Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth proxyuser proxypass\nMaxClients \
        20\n"
    );
    let config = scratch.write("tinyproxy.conf", config).unwrap();
    let script = "mount --bind \"$1\" /etc/hosts && exec tinyproxy -d -c \"$2\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(&hosts)
        .arg(&config);
    let mut running = Running(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + LIMIT;
    while running.0.try_wait().unwrap().is_none() && Instant::now() < deadline {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (running, port);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("tinyproxy did not start");
}

#[test]
fn privileged_the_proxy_of_the_document_is_used() {
    if !is_root("privileged_the_proxy_of_the_document_is_used") {
        return;
    }
    let site = Site::start();
    let (_proxy, port) = start_proxy(&site.scratch);
    let image = format!(
        "registry.corp:{}/team/app@{}",
        site.registry.port(),
        site.layout.manifest
    );
    let document = |environment: &str| {
        format!(
            "[extra-env]\n{environment}\n{}",
            site.document("registry.corp")
        )
    };
    let puller = Puller::start(&site.scratch, Some(&document("")));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    puller.configure(&document(&format!(
        "HTTPS_PROXY = \"http://proxyuser:wrong@127.0.0.1:{port}\""
    )));
    puller.refuse(
        &image,
        69,
        &[
            "cannot reach registry.corp:",
            "through the proxy",
            "of [extra-env]",
        ],
    );
    assert!(!puller.log().contains("proxyuser:wrong"));

    let good = format!("https_proxy = \"http://proxyuser:proxypass@127.0.0.1:{port}\"");
    puller.configure(&document(&format!("{good}\nNO_PROXY = \".corp\"")));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    puller.configure(&document(&good));
    puller.pull(&image, "c1");
    assert!(!puller.log().contains("proxypass"));
}
