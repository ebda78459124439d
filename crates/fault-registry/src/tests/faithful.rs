//! Without a script, the registry is a good one.

use super::{Ending, content, start, start_secure};
use crate::{Content, FaultRegistry, Http, Login, Script, What};

#[test]
fn content_is_served_with_its_headers() {
    let site = start(Script::new());
    let (head, body, ending) = site.ask_layer("");
    assert!(head.starts_with("http/1.1 200 "));
    assert!(head.contains(&format!("docker-content-digest: {}\r\n", site.layer)));
    assert!(head.contains(&format!("content-length: {}\r\n", site.bytes.len())));
    assert_eq!(body, site.bytes);
    assert_eq!(ending, Ending::Closed, "as the request wants it");
    for path in [site.manifest_path(), "/v2/x/manifests/latest".to_owned()] {
        let (received, _) = site.ask(&path, "");
        let text = String::from_utf8(received).unwrap();
        assert!(
            text.contains("Content-Type: application/vnd.oci.image.manifest.v1+json"),
            "{text}"
        );
    }
    let (received, _) = site.ask("/v2/x/manifests/none", "");
    assert!(received.starts_with(b"HTTP/1.1 404 "));
    let asked: Vec<_> = site.registry.requests().iter().map(|r| r.what.clone()).collect();
    let wanted = [What::Layer(0), What::Manifest, What::Manifest, What::Unknown];
    assert_eq!(asked, wanted);
}

#[test]
fn ranges_are_given() {
    let site = start(Script::new());
    let length = site.bytes.len();
    let (head, body, _) = site.ask_layer("Range: bytes=1000-\r\n");
    assert!(head.starts_with("http/1.1 206 "));
    let range = format!("content-range: bytes 1000-{}/{length}\r\n", length - 1);
    assert!(head.contains(&range), "{head}");
    assert_eq!(body, &site.bytes[1000..]);
    let (_, body, _) = site.ask_layer("Range: bytes=10-19\r\n");
    assert_eq!(body, &site.bytes[10..20]);
    let (head, _, _) = site.ask_layer(&format!("Range: bytes={length}-\r\n"));
    assert!(head.starts_with("http/1.1 416 "));
}

#[test]
fn a_layout_on_disk_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let layout = vm_harness::layout::sample(directory.path()).unwrap();
    let content = Content::load(directory.path()).unwrap();
    let registry = FaultRegistry::start(content, Script::new(), None).unwrap();
    let output = std::process::Command::new("skopeo")
        .args(["copy", "--quiet", "--insecure-policy", "--src-tls-verify=false"])
        .arg(format!("docker://{}/team/app@{}", registry.address(), layout.manifest))
        .arg(format!("dir:{}", directory.path().join("copy").display()))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let layers = registry.requests().iter().filter(|r| matches!(r.what, What::Layer(_))).count();
    assert_eq!(layers, layout.layers.len());
}

#[test]
fn logins_are_wanted() {
    let (content, _, _) = content();
    let ask = |login: Login, user: &str| {
        let script = Script::new().login(login);
        let registry = FaultRegistry::start(content.clone(), script, None).unwrap();
        let target = format!("{}/v2/app/manifests/latest", registry.base());
        let output = std::process::Command::new("curl")
            .args(["--silent", "--include", "--user", user, &target])
            .output()
            .unwrap();
        let tokens = format!("{}/token", registry.base());
        let token = std::process::Command::new("curl")
            .args(["--silent", "--user", user, &tokens])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(token.stdout))
    };
    let (answer, _) = ask(Login::basic("u", "p"), "u:p");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (answer, _) = ask(Login::basic("u", "p"), "u:wrong");
    assert!(answer.contains("WWW-Authenticate: Basic "), "{answer}");
    let (answer, token) = ask(Login::bearer("u", "p", "secret"), "u:p");
    assert!(answer.contains("WWW-Authenticate: Bearer realm=\"http://127.0.0.1:"), "{answer}");
    assert!(token.contains("\"secret-1\""), "{token}");
    let (_, token) = ask(Login::bearer("u", "p", "secret"), "u:wrong");
    assert!(!token.contains("secret-"), "{token}");
}

#[test]
fn tls_is_spoken() {
    let site = start_secure(Script::new(), Http::One);
    let again = format!("{}{}", site.registry.base(), site.path);
    let output = site.curl(&["--http2", &again]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, [&*site.bytes, &site.bytes].concat());
    assert_eq!(site.registry.connections(), 1, "the connection is kept");
    assert!(!site.registry.requests()[0].is_http2);
}
