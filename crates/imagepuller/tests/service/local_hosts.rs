//! The host speaks on the guest's loopback: a service that did as the host's config says once sent
//! requests to whatever listens there, and told the host about the answers.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};

use test_http::{Listener, Server, head};
use vm_harness::Scratch;

use crate::late_network::{HOST, name_server};
use crate::support::Puller;

/// A server on this machine that keeps count of who comes, and hangs up.
fn server() -> Listener {
    Listener::start(SocketAddr::from(([127, 0, 0, 1], 0)), |_, _| {}).unwrap()
}

fn image(host: &str) -> String {
    format!("{host}/team/app@sha256:{}", "0".repeat(64))
}

/// An entry, and more of it.
fn entry(name: &str, keys: &str) -> String {
    format!("[registries.\"{name}\"]\n{keys}\n")
}

/// One way to a server on this machine.
struct Row {
    name: &'static str,
    /// The host's config.
    host: String,
    image: String,
    /// The owner's config, which names another server.
    owner: String,
    /// What the owner adds to name this one.
    named: String,
    /// What the owner adds that frees another port or use of the host.
    beside: Vec<String>,
    /// The address in the refusal.
    address: String,
}

/// What a look-up of this machine gives first, by its `/etc/hosts`.
fn localhost() -> String {
    let mut found = ("localhost", 0).to_socket_addrs().unwrap();
    found.next().unwrap().ip().to_string()
}

fn rows(port: u16, elsewhere: &[Server; 2]) -> Vec<Row> {
    let literal = format!("127.0.0.1:{port}");
    let plain = |name: &str| entry(name, "plain-http = true");
    let [realm, redirect] = elsewhere.each_ref().map(|server| {
        let name = format!("localhost:{}", server.port);
        (image(&name), plain(&name))
    });
    let row = |name, host: String, image: String, named: String| Row {
        name,
        address: match host.contains("localhost") {
            true => localhost(),
            false => "127.0.0.1".to_owned(),
        },
        host,
        image,
        owner: String::new(),
        beside: Vec::new(),
        named,
    };
    // A name without a port is for those of HTTPS and HTTP.
    let beside = |host: &str| {
        let host = host.strip_suffix(&format!(":{port}")).unwrap();
        [host.to_owned(), format!("{host}/team"), format!("{host}:9")]
            .map(|name| entry(&name, "anonymous = true"))
            .to_vec()
    };
    let registry = |name, host: String| Row {
        beside: beside(&host),
        ..row(name, plain(&host), image(&host), plain(&host))
    };
    // The owner's entry is no leave for the host's proxy.
    let proxy = |name, key: &str, proxy: String| {
        let proxies = format!("[extra-env]\n{key} = \"{proxy}\"\n");
        let (_, host) = proxy.split_once("://").unwrap();
        Row {
            beside: vec![entry(host, "anonymous = true")],
            ..row(name, proxies.clone(), image("registry.corp"), proxies)
        }
    };
    let mirror = |name, host: &str| {
        let keys = format!("mirror = \"http://{host}\"\nplain-http = true");
        let config = entry("registry.corp", &keys);
        row(name, config.clone(), image("registry.corp"), config)
    };
    let sent = |name, (image, owner): &(String, String)| Row {
        owner: owner.clone(),
        beside: beside(&literal),
        ..row(name, String::new(), image.clone(), entry(&literal, "anonymous = true"))
    };
    // The owner's words about the host are no leave for the host's address of it.
    let addresses = |name: &str| entry(name, "addresses = [\"127.0.0.1\"]");
    let name = format!("registry.corp:{port}");
    let mirrored = entry("other.corp", &format!("mirror = \"https://{name}\""));
    vec![
        Row {
            beside: vec![mirrored, addresses("registry.corp")],
            ..row("addresses", addresses("registry.corp"), image(&name), addresses(&name))
        },
        registry("registry", literal.clone()),
        registry("registry by name", format!("localhost:{port}")),
        Row {
            address: "::ffff:127.0.0.1".to_owned(),
            ..registry("registry, mapped", format!("[::ffff:127.0.0.1]:{port}"))
        },
        Row {
            address: "0.0.0.0".to_owned(),
            ..registry("registry, unspecified", format!("0.0.0.0:{port}"))
        },
        mirror("mirror", &literal),
        mirror("mirror by name", &format!("localhost:{port}")),
        proxy("proxy", "HTTPS_PROXY", format!("http://{literal}")),
        proxy("proxy by name", "HTTPS_PROXY", format!("http://localhost:{port}")),
        proxy("proxy over TLS", "https_proxy", format!("https://localhost:{port}")),
        proxy("SOCKS proxy", "HTTPS_PROXY", format!("socks5://{literal}")),
        proxy("SOCKS proxy by name", "HTTPS_PROXY", format!("socks5://localhost:{port}")),
        sent("token realm", &realm),
        sent("redirect", &redirect),
    ]
}

/// The owner's config allows what it names, on the port that it names.
#[test]
fn privileged_no_connection_to_this_machine_that_the_owner_does_not_name() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let server = server();
    let port = server.address().port();
    let to = format!("https://127.0.0.1:{port}");
    let challenge = format!("WWW-Authenticate: Bearer realm=\"{to}/token\"\r\n");
    let elsewhere = [
        Server::always(head("401 Unauthorized", &challenge)),
        Server::always(head("307 Temporary Redirect", &format!("Location: {to}/x\r\n"))),
    ];
    let puller = Puller::start(&scratch, None);
    let measured = |text: &str| fs::write(puller.document().with_file_name("measured.toml"), text);
    let mut connections = 0;
    for row in rows(port, &elsewhere) {
        let (name, address) = (row.name, &row.address);
        puller.configure(&row.host);
        for beside in row.beside.iter().chain([&String::new()]) {
            let owner = format!("{}{beside}", row.owner);
            measured(&owner).unwrap();
            let words = [
                &format!("is at {address}, an address that only the guest or its cloud uses"),
                "the measured imagepuller.toml",
            ];
            drop(puller.request(&row.image, "refused"));
            assert_eq!(server.connections(), connections, "{name}\n{owner}");
            puller.refuse(&row.image, 69, &words);
        }
        measured(&format!("{}{}", row.owner, row.named)).unwrap();
        let output = puller.request(&row.image, "named");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(server.connections() > connections, "{name}: {error}");
        assert!(!error.contains("only the guest"), "{name}: {error}");
        connections = server.connections();
    }
}

/// The HTTP client went without a proxy that it cannot read, to an address that nobody had judged.
#[test]
fn privileged_a_proxy_that_is_no_host_leads_nowhere() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let server = server();
    let puller = Puller::start(&scratch, None);
    fs::write(puller.document().with_file_name("measured.toml"), "").unwrap();
    let mirror = format!("http://0.0.0.0:{}", server.address().port());
    let proxy = "[extra-env]\nHTTP_PROXY = \"http://a.b.c.xn--pokxncvks:1\"\n";
    let keys = format!("mirror = \"{mirror}\"\nplain-http = true");
    puller.configure(&format!("{proxy}{}", entry("registry.corp", &keys)));
    let words =
        ["the proxy http://a.b.c.xn--pokxncvks:1 of [extra-env] has a name that is no host's"];
    puller.refuse(&image("registry.corp"), 69, &words);
    assert_eq!(server.connections(), 0);
}

/// Of a name's addresses those count that the look-up gives, not what the name looks like.
#[test]
fn privileged_a_name_that_is_looked_up_as_this_machine_is_not_asked() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let server = server();
    let resolver = scratch.path().join("resolv.conf");
    fs::write(&resolver, format!("nameserver {}\n", name_server())).unwrap();
    let puller = Puller::start_with_resolver(&scratch, "", &resolver);
    let measured = |text: &str| fs::write(puller.document().with_file_name("measured.toml"), text);
    measured("").unwrap();
    let image = image(&format!("{HOST}:{}", server.address().port()));
    puller.refuse(&image, 69, &[HOST, "is at 127.0.0.1, "]);
    assert_eq!(server.connections(), 0);
    measured(&entry(HOST, "anonymous = true")).unwrap();
    puller.refuse(&image, 69, &[HOST, "is at 127.0.0.1, "]);
    assert_eq!(server.connections(), 0, "the owner named the port of HTTPS");
    let (name, _) = image.split_once('/').unwrap();
    measured(&entry(name, "anonymous = true")).unwrap();
    let output = puller.client(&image, "named").args(["--timeout", "5"]).output();
    let error = output.unwrap().stderr;
    assert!(server.connections() > 0, "{}", String::from_utf8_lossy(&error));
}
