//! A network on which the guest reaches a proxy and nothing else: not the registry, not its mirror,
//! not its token server, no DNS. The proxy wants a password, the registry tokens, everybody's
//! certificate is by a private CA, and the mirror has lost a layer.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod network;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use end_to_end::{assert_tells, refusal, run};
use network::{Closed, PROXY_USER, assert_closed};
use vm_harness::kata::PROXY_ADDRESS;
use vm_harness::{Network, Proxy, Report, Scenario, demo, is_root, program};

/// The image came, whole, and each part from where it had to come.
fn assert_pulled(closed: &Closed, proxy: &Proxy, report: &Report) -> Result<()> {
    assert_closed(report);
    closed.assert_no_secret(report);
    let layout = &closed.site.layout;
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("answer"), Some(layout.manifest.as_str()));
    assert_eq!(report.value("mount"), Some("1"));
    assert_eq!(demo::files(report)?, layout.files);
    assert_eq!(report.value("run"), Some("pulled inside the guest"));
    let is_configured = |line: &str| line.ends_with(" /run/insecure-cfg/imagepuller.toml");
    assert!(report.values("config").any(is_configured));

    // The mirror gave everything but what it has lost.
    let query = format!("?ns=registry.corp%3A{}", closed.registry.port());
    let blob = |digest: &str| format!("blobs/{digest}");
    let mut wanted = vec![format!("manifests/{}", layout.manifest)];
    wanted.extend(layout.layers.iter().map(|layer| blob(layer)));
    for what in wanted {
        let request = format!("GET /cache/v2/team/app/{what}{query}");
        let good = if what == blob(&closed.lost) { 404 } else { 200 };
        assert_eq!(
            closed.mirror.statuses(&request).last(),
            Some(&good),
            "{request}: {}",
            closed.mirror.log()
        );
    }
    // The registry was asked for that alone, and gave it for a token that is good for one
    // repository.
    let lost = format!("/v2/team/app/{}", blob(&closed.lost));
    let answers = closed.registry.answers();
    assert!(answers.iter().all(|(request, _)| request.ends_with(&lost)), "{answers:?}");
    let fetched = closed.registry.statuses(&format!("GET {lost}"));
    assert_eq!(fetched.first(), Some(&401), "{answers:?}");
    assert_eq!(fetched.last(), Some(&200), "{answers:?}");
    let given = closed.tokens.given();
    assert_eq!(given.scopes, ["repository:team/app:pull"]);
    let requests = closed.tokens.requests();
    let is_good = |request: &test_http::Request| request.status == 200;
    assert!(requests.iter().all(is_good), "{requests:?}");

    // The proxy was asked for the mirror first, and in the end for all three by name.
    let [mirror, tokens, registry] = closed.targets();
    let asked = asked_for(proxy, &[&mirror, &tokens, &registry]);
    assert_eq!(asked[0], mirror, "{asked:?}");
    let first = |target: &str| asked.iter().position(|asked| asked == target);
    assert!(first(&registry) < first(&tokens), "{asked:?}");
    let known = [&mirror, &tokens, &registry];
    assert!(asked.iter().all(|asked| known.contains(&asked)), "{asked:?}");
    Ok(())
}

/// What the proxy was asked for, once it has written about all of `targets`.
fn asked_for(proxy: &Proxy, targets: &[&String]) -> Vec<String> {
    let start = Instant::now();
    loop {
        let asked = proxy.asked();
        if targets.iter().all(|target| asked.contains(target)) {
            return asked;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the proxy was not asked for all of {targets:?}: {}",
            proxy.log()
        );
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_image_comes_through_squid() -> Result<()> {
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::squid(closed.scratch(), &closed.rules(&ports))?;
    let report = run(&closed.scenario(proxy.port(), closed.document()))?;
    assert_pulled(&closed, &proxy, &report)?;
    let log = proxy.log();
    let opened = log.lines().filter(|line| {
        line.contains(" TCP_TUNNEL/200 ") && line.contains(&format!(" {PROXY_USER} HIER_DIRECT/"))
    });
    let asked = log.lines().filter(|line| line.contains(" CONNECT "));
    assert_eq!(opened.count(), asked.count(), "{log}");
    Ok(())
}

#[test]
fn privileged_an_image_comes_through_tinyproxy() -> Result<()> {
    if !is_root("privileged_an_image_comes_through_tinyproxy") {
        return Ok(());
    }
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::tinyproxy(closed.scratch(), &closed.rules(&ports))?;
    let report = run(&closed.scenario(proxy.port(), closed.document()))?;
    assert_pulled(&closed, &proxy, &report)
}

/// The pull was refused, and nobody behind the proxy was asked for anything.
fn refused_at_the_door(closed: &Closed, report: &Report) -> Result<String> {
    assert_closed(report);
    closed.assert_no_secret(report);
    let error = refusal(report)?;
    let [mirror, ..] = closed.targets();
    assert_tells(&error, &[&mirror]);
    assert!(closed.mirror.answers().is_empty(), "{}", closed.mirror.log());
    assert!(closed.registry.answers().is_empty());
    Ok(error)
}

#[test]
fn a_wrong_password_for_squid() -> Result<()> {
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::squid(closed.scratch(), &closed.rules(&ports))?;
    let wrong = "not-the-password";
    let document = closed.document_with(wrong, closed.site.authority.certificate());
    let report = run(&closed.scenario(proxy.port(), document))?;
    let error = refused_at_the_door(&closed, &report)?;
    let named = format!("through the proxy http://[redacted]@{PROXY_ADDRESS} of [extra-env]: ");
    assert_tells(&error, &[&named, "the proxy wants other credentials (407"]);
    assert!(!report.console.contains(wrong), "{}", report.console);
    assert!(proxy.log().contains(" TCP_DENIED/407 "), "{}", proxy.log());
    Ok(())
}

/// With a puller that asks five times: as it is shipped, it asks a proxy that does not open the way
/// for as long as its caller waits.
fn hasty(scenario: Scenario) -> Result<Scenario> {
    let puller = fs::read(program("examples/timed")?)?;
    let services = "chmod +x /job/timed; PULLER='/job/timed --attempts 5'\n";
    let files = [("job/timed", puller), ("job/services", services.into())];
    let files = files.map(|(name, content)| (name.to_owned(), content)).into();
    Ok(Scenario { files, ..scenario })
}

#[test]
fn privileged_a_wrong_password_for_tinyproxy() -> Result<()> {
    if !is_root("privileged_a_wrong_password_for_tinyproxy") {
        return Ok(());
    }
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::tinyproxy(closed.scratch(), &closed.rules(&ports))?;
    let wrong = "not-the-password";
    let document = closed.document_with(wrong, closed.site.authority.certificate());
    let report = run(&hasty(closed.scenario(proxy.port(), document))?)?;
    let error = refused_at_the_door(&closed, &report)?;
    // tinyproxy answers 401 where 407 is due.
    let named = format!("through the proxy http://[redacted]@{PROXY_ADDRESS} of [extra-env]: ");
    assert_tells(&error, &[&named, "it refuses the credentials or the address"]);
    assert!(!report.console.contains(wrong), "{}", report.console);
    Ok(())
}

#[test]
fn a_proxy_that_does_not_open_a_way_to_the_registry() -> Result<()> {
    let closed = Closed::start()?;
    let [mirror, tokens, _] = closed.ports();
    let ports = [mirror, tokens];
    let proxy = Proxy::squid(closed.scratch(), &closed.rules(&ports))?;
    let report = run(&hasty(closed.scenario(proxy.port(), closed.document()))?)?;
    assert_closed(&report);
    closed.assert_no_secret(&report);
    let error = refusal(&report)?;
    let [_, _, registry] = closed.targets();
    let named = format!(
        "cannot reach {registry} through the proxy http://[redacted]@{PROXY_ADDRESS} of \
        [extra-env]: "
    );
    let refused = "the proxy does not open a way there";
    assert_tells(&error, &[&named, refused, &closed.lost]);
    assert_tells(&proxy.log(), &["TCP_DENIED/403", &registry]);
    assert!(closed.registry.answers().is_empty());
    Ok(())
}

#[test]
fn a_registry_whose_authority_is_missing() -> Result<()> {
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::squid(closed.scratch(), &closed.rules(&ports))?;
    let document = closed.document_with(&closed.proxy_password, "");
    let report = run(&closed.scenario(proxy.port(), document))?;
    assert_closed(&report);
    closed.assert_no_secret(&report);
    let error = refusal(&report)?;
    let [_, _, registry] = closed.targets();
    assert_tells(
        &error,
        &[
            &format!("the certificate of {registry} is not trusted: "),
            "CN=corp private CA",
            "entry \"registry.corp.\" has no \"ca-certs\"",
        ],
    );
    assert_tells(&error, &[&closed.lost]);
    assert!(closed.registry.answers().is_empty());
    assert!(closed.tokens.given().scopes.is_empty());
    Ok(())
}

#[test]
fn the_proof_of_a_closed_network_fails_on_an_open_one() -> Result<()> {
    let closed = Closed::start()?;
    let ports = closed.ports();
    let proxy = Proxy::squid(closed.scratch(), &closed.rules(&ports))?;
    let report =
        run(&Scenario { network: Network::Open, ..Scenario::bare(closed.proof(proxy.port())) })?;
    let reached: Vec<&str> = report.values("reach").collect();
    let open = reached.iter().filter(|line| line.ends_with(" open"));
    assert_eq!(open.count(), 4, "{reached:?}");
    assert_ne!(report.value("dns"), Some("silent"));
    Ok(())
}
