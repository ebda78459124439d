//! `imagepuller probe`: what is said before anything is pulled, at real registries and proxies.

use std::fs;

use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use serde_json::Value;
use test_http::pki::Authority;
use vm_harness::proxy::{Proxy, Rules};
use vm_harness::{Port, Scratch, TokenServer};

use crate::support::{PASSWORD, Site, USER, entry, imagepuller, names};

/// Asks by a document; gives the exit code and both outputs.
fn probe(scratch: &Scratch, document: &str, arguments: &[&str]) -> (i32, String) {
    let directory = tempfile::tempdir_in(scratch.path()).unwrap();
    let file = directory.path().join("imagepuller.toml");
    fs::write(&file, document).unwrap();
    let mut command = imagepuller(["probe", "--config"]);
    command.arg(&file).args(["--timeout", "20"]).args(arguments);
    // What the environment says about proxies must have no effect.
    command.env("HTTPS_PROXY", "http://127.0.0.1:1");
    command.current_dir(directory.path());
    let output = command.output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!text.contains(PASSWORD), "a secret was shown: {text}");
    let written = names(directory.path());
    assert_eq!(written, ["imagepuller.toml"], "something was written");
    (output.status.code().unwrap(), text)
}

#[track_caller]
fn assert_says(found: &(i32, String), code: i32, words: &[&str]) {
    let (found, text) = found;
    assert_eq!(*found, code, "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn a_real_registry_is_asked_as_a_pull_asks_it() {
    let site = Site::start();
    let (scratch, image) = (&site.scratch, site.image());
    let port = site.registry.port();
    let digest = site.layout.manifest.to_string();
    let good = site.document("localhost");
    let own = "as user \"puller\" of entry \"localhost.\"";
    let works = [
        ": works: registry localhost:",
        " reached, certificate checked, trusted roots: only the 1 in \"ca-certs\"",
        own,
        ", allowed",
    ];
    assert_says(&probe(scratch, &good, &[&image]), 0, &works);
    let tag = format!("localhost:{port}/team/app:1");
    let by_tag = probe(scratch, &good, &[&tag]);
    assert_says(&by_tag, 0, &[": works: ", "only by its digest", &digest]);

    // Where the owner pinned the tag, a guest pulls it.
    let measured = scratch.path().join("measured.toml");
    let by_pin = |pinned: &str| {
        let text = format!("only-pins = true\n[pins]\n\"{tag}\" = \"{pinned}\"\n");
        fs::write(&measured, text).unwrap();
        let measured = measured.to_str().unwrap();
        let by_tag = probe(scratch, &good, &["--measured", measured, &tag]);
        assert!(!by_tag.1.contains("only by its digest"), "{}", by_tag.1);
        (by_tag, probe(scratch, &good, &["--measured", measured, &image]))
    };
    let (by_tag, by_digest) = by_pin(&digest);
    assert_says(&by_tag, 0, &[": works: "]);
    assert_says(&by_digest, 0, &[": works: "]);
    let (by_tag, by_digest) = by_pin(&format!("sha256:{}", "0".repeat(64)));
    assert_says(&by_tag, 69, &[": fails: ", "404 Not Found"]);
    assert_says(&by_digest, 65, &[": fails: ", "only-pins = true"]);

    // Without an image each entry is tried as far as its host allows.
    let entries = good.replace("\"localhost\"", &format!("\"localhost:{port}\""));
    let words = ["entry \"localhost:", ": works: ", "only /v2/ was tried", "as user \"puller\""];
    assert_says(&probe(scratch, &entries, &[]), 0, &words);
    assert_eq!(site.registry.statuses("GET /v2/").last(), Some(&200));

    let wrong = entries.replace(PASSWORD, "wrong");
    let refused = "refused the credentials of entry \"localhost:";
    assert_says(&probe(scratch, &wrong, &[&image]), 69, &[": fails: ", refused]);
    let words = [": fails: ", refused, "only /v2/ was to be tried"];
    assert_says(&probe(scratch, &wrong, &[]), 69, &words);
    let nobody = format!(
        "[registries.\"localhost:{port}\"]\nca-certs = '''\n{}'''\n",
        site.authority.certificate()
    );
    let words = ["wants credentials (401 Unauthorized) and was asked anonymously"];
    assert_says(&probe(scratch, &nobody, &[&image]), 69, &words);
    assert_says(&probe(scratch, &nobody, &[]), 69, &words);
    let also = format!(
        "{wrong}[[registries.\"localhost:{port}\".also]]\nusername = \"{USER}\"\n\
        password = \"{PASSWORD}\"\n"
    );
    let words =
        [": works: ", own, "\"also\" 1"].map(|word| word.replace("localhost.\"", "localhost:"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_says(&probe(scratch, &also, &[&image]), 0, &words);

    let other = Authority::new("other").unwrap();
    let foreign = entry("localhost", USER, PASSWORD, other.certificate());
    let words = [": fails: ", "is not trusted", "unknown authority"];
    assert_says(&probe(scratch, &foreign, &[&image]), 69, &words);
    let missing = image.replace("/app@", "/none@");
    assert_says(&probe(scratch, &good, &[&missing]), 69, &["404 Not Found"]);
    assert_says(&probe(scratch, &good, &["x@sha256:1"]), 65, &[": fails: ", "digest"]);
}

#[test]
fn what_cannot_be_tried_is_said() {
    let site = Site::start();
    let scratch = &site.scratch;
    let port = site.registry.port();
    let good = entry(&format!("localhost:{port}"), USER, PASSWORD, site.authority.certificate());
    let wide = "[registries.\".corp\"]\nusername = \"a\"\npassword = \"b\"\n";
    let words = ["not tried", "the name of no single host"];
    assert_says(&probe(scratch, wide, &[]), 65, &words);
    // Beside one that is tried it is no failure, and neither is what the document forbids.
    let rest = format!("{good}{wide}[registries.\"closed.corp\"]\nca-certs = \"nobody\"\n");
    let (code, text) = probe(scratch, &rest, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("not tried, closed.corp is forbidden"), "{text}");
    assert_says(&probe(scratch, &rest, &["closed.corp/a:1"]), 69, &[": fails: ", "is forbidden"]);
    // What only a guest may see.
    let reference = "[registries.\"r.corp\"]\ncredentials-uri = \"kbs:///default/a/b\"\n";
    let words = ["a guest has to fetch", "kbs:///default/a/b", "there is no CDH to ask"];
    assert_says(&probe(scratch, reference, &[]), 69, &words);
    let words = ["the node says: no disk"];
    assert_says(&probe(scratch, "node-error = \"no disk\"\n", &[]), 65, &words);
    assert_says(&probe(scratch, "", &[]), 65, &["have no entry"]);
    assert_says(&probe(scratch, "[registries", &[]), 65, &["is not valid"]);
    let many: String = (0..70)
        .map(|number| format!("[registries.\"closed{number}.corp\"]\nca-certs = \"nobody\"\n"))
        .collect();
    let (code, text) = probe(scratch, &many, &[]);
    assert_eq!((code, text.lines().count()), (69, 65), "{text}");
    assert!(text.ends_with("6 more entries were not tried; name images of theirs\n"), "{text}");
}

#[test]
fn an_expired_certificate_and_a_mirror_that_is_down_are_told() {
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("authority").unwrap();
    let mut content = Content::default();
    let layer = Layer::gzip(&[("a", b"a")]).unwrap();
    let digest = Image::new(vec![layer]).publish(&mut content);
    let serve = |identity| {
        let tls = Tls { identity: &identity, name: "localhost", http: Http::One };
        let script = Script::new().login(Login::basic(USER, PASSWORD));
        FaultRegistry::start(content.clone(), script, Some(&tls)).unwrap()
    };
    let image = |registry: &FaultRegistry| {
        let port = registry.address().port();
        format!("localhost:{port}/team/app@{digest}")
    };
    let document = entry("localhost", USER, PASSWORD, authority.certificate());
    let expired = serve(authority.sign_expired(&["localhost"]).unwrap());
    let words = [": fails: ", "it has expired", "valid from 2001-01-01 to 2002-01-01"];
    assert_says(&probe(&scratch, &document, &[&image(&expired)]), 69, &words);
    assert!(expired.requests().is_empty(), "a credential may have been sent");
    let unchecked = format!("{document}insecure-skip-verify = true\n");
    let words = [": works: ", "certificate NOT checked by entry \"localhost.\""];
    assert_says(&probe(&scratch, &unchecked, &[&image(&expired)]), 0, &words);

    let good = serve(authority.sign(&["localhost"]).unwrap());
    let closed = Port::reserve().unwrap();
    let down = closed.number();
    let mirror = format!("mirrors = [\"https://127.0.0.1:{down}\"]\n");
    let of_mirror =
        format!("[registries.\"127.0.0.1:{down}\"]\nusername = \"m\"\npassword = \"m\"\n");
    let alone = format!("{document}{mirror}{of_mirror}");
    let words = [": fails: cannot reach 127.0.0.1:"];
    assert_says(&probe(&scratch, &alone, &[&image(&good)]), 69, &words);
    let beside = format!("{document}{mirror}mirror-fallback = true\n{of_mirror}");
    let words = [
        ": works: registry localhost:",
        "; before it mirror 127.0.0.1:",
        " failed: cannot reach 127.0.0.1:",
    ];
    assert_says(&probe(&scratch, &beside, &[&image(&good)]), 0, &words);

    let (code, text) = probe(&scratch, &beside, &["--json", &image(&good), &image(&expired)]);
    assert_eq!(code, 69, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["works"], false);
    let [one, two] = [&report["targets"][0], &report["targets"][1]];
    assert_eq!((&one["works"], &one["tried"]), (&true.into(), &"manifest".into()));
    assert_eq!((&one["image"], &one["digest"]), (&image(&good).into(), &digest.to_string().into()));
    let failed = &one["sources"][0];
    assert_eq!((&failed["reached"], &failed["stage"]), (&false.into(), &"reach".into()));
    let asked = &one["sources"][1];
    for key in ["reached", "certificate", "account", "allowed"] {
        assert_eq!(asked[key], true, "{key} in {asked}");
    }
    assert_eq!((&two["works"], &two["exitCode"]), (&false.into(), &69.into()));
    let refused = &two["sources"][1];
    assert_eq!((&refused["reached"], &refused["certificate"]), (&true.into(), &false.into()));
    assert_eq!(refused["account"], Value::Null);
    let (code, text) = probe(&scratch, "[registries", &["--json"]);
    let report: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((code, &report["works"]), (65, &false.into()));
}

#[test]
fn tokens_come_from_the_token_server() {
    let site = Site::start();
    let (scratch, authority) = (&site.scratch, &site.authority);
    let tokens = TokenServer::start(scratch, authority, "localhost", USER, PASSWORD).unwrap();
    let realm = tokens.realm();
    let registry =
        site.registry.with_tokens(scratch, authority, &["localhost"], tokens.signer(), &realm);
    let registry = registry.unwrap();
    let host = format!("localhost:{}", registry.port());
    let image = format!("{host}/team/app@{}", site.layout.manifest);
    let good = entry(&host, USER, PASSWORD, authority.certificate());
    let asked = || {
        let requests = tokens.requests();
        requests.last().unwrap().lines().next().unwrap().to_owned()
    };
    assert_says(&probe(scratch, &good, &[&image]), 0, &[": works: ", "as user \"puller\""]);
    assert!(asked().contains("scope=repository%3Ateam%2Fapp%3Apull"), "{}", asked());
    // Without an image there is no repository to ask for.
    assert_says(&probe(scratch, &good, &[]), 0, &[": works: ", "only /v2/ was tried"]);
    assert_eq!(asked(), "GET /token?service=registry.test HTTP/1.1");
    let wrong = good.replace(PASSWORD, "wrong");
    for arguments in [&[][..], &[image.as_str()]] {
        let words = ["the token server localhost:", "refused the credentials"];
        assert_says(&probe(scratch, &wrong, arguments), 69, &words);
    }
}

#[test]
fn privileged_the_way_is_through_the_documents_proxy() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image_at("registry.corp");
    let rules = Rules {
        username: "proxyuser",
        password: "proxypass",
        names: &["registry.corp"],
        ports: &[],
    };
    let squid = Rules { ports: &[site.registry.port()], ..rules };
    let proxies = [
        Proxy::tinyproxy(&site.scratch, &rules).unwrap(),
        Proxy::squid(&site.scratch, &squid).unwrap(),
    ];
    let document = |environment: &str| {
        let entry = site.document("registry.corp");
        format!("[extra-env]\n{environment}\n{entry}")
    };
    let directly = probe(&site.scratch, &document(""), &[&image]);
    assert_says(&directly, 69, &["cannot reach registry.corp:"]);
    // What an entry without a dot before its name is taken for.
    let nearly = |name: &str| {
        let port = proxies[0].port();
        let proxy = format!("HTTPS_PROXY = \"http://proxyuser:proxypass@127.0.0.1:{port}\"");
        let entry = site.document(name);
        probe(&site.scratch, &format!("[extra-env]\n{proxy}\n{entry}"), &[&image])
    };
    let near = "(\"corp.\" holds for that host alone; hosts below it need \".corp.\")";
    assert_says(&nearly("corp"), 69, &[": fails: ", "is not trusted", near]);
    assert_says(&nearly(".corp"), 0, &[": works: "]);
    for proxy in &proxies {
        let port = proxy.port();
        let way = |password: &str| {
            document(&format!("HTTPS_PROXY = \"http://proxyuser:{password}@127.0.0.1:{port}\""))
        };
        let found = probe(&site.scratch, &way("proxypass"), &[&image]);
        assert_says(
            &found,
            0,
            &[": works: ", "reached through the proxy http://", "of [extra-env]"],
        );
        assert!(!found.1.contains("proxypass"), "{}", found.1);
        let found = probe(&site.scratch, &way("wrong1"), &[&image]);
        assert_says(&found, 69, &["cannot reach registry.corp:", "through the proxy"]);
        assert!(!found.1.contains("wrong1"), "{}", found.1);
    }
}
