#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use super::*;
use crate::kubelet::protocol::Version;

fn response(kind: &str, auth: &str) -> Response {
    let text = format!(
        "{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
         \"cacheKeyType\":\"{kind}\",\"auth\":{{{auth}}}}}"
    );
    Response::parse(text.as_bytes(), Version::V1).unwrap()
}

/// The users offered for `host` by the answers, whose pairs are `key=user`, each password its
/// user's with "-pw".
fn users(host: &str, answers: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let responses: Vec<_> = answers
        .iter()
        .map(|(kind, pairs)| {
            let pairs: Vec<_> = pairs
                .split_whitespace()
                .map(|pair| {
                    let (key, user) = pair.split_once('=').unwrap();
                    let password =
                        if user.is_empty() { String::new() } else { format!("{user}-pw") };
                    format!("\"{key}\":{{\"username\":\"{user}\",\"password\":\"{password}\"}}")
                })
                .collect();
            response(kind, &pairs.join(","))
        })
        .collect();
    let names = ["one", "two", "three"];
    let answers: Vec<_> = names.into_iter().zip(&responses).collect();
    let host = RegistryHost::parse(host).unwrap();
    let (offers, findings) = offers(&host, None, &answers);
    let users = offers.iter().map(|offer| {
        let Credentials::Basic { username, password } = &offer.offered else { panic!("{offer:?}") };
        assert_eq!(password.expose(), format!("{username}-pw"));
        match offer.name.strip_prefix(&host.to_string()) {
            Some("") => username.clone(),
            Some(below) => format!("{username}{below}"),
            None => panic!("{}", offer.name),
        }
    });
    let findings = findings.iter().map(ToString::to_string).collect();
    (users.collect(), findings)
}

/// A registry, what each plugin answers, and whose pairs come.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn pairs_come_in_the_order_in_which_the_kubelet_tries_them() {
    let cases: [Case<'_>; 19] = [
        ("reg.corp", &[("Registry", "reg.corp=a")], &["a"]),
        ("reg.corp", &[("Global", "https://reg.corp/v2/=a")], &["a"]),
        ("reg.corp", &[("Registry", "http://reg.corp/=a")], &["a"]),
        ("reg.corp:5000", &[("Registry", "reg.corp=a")], &[]),
        ("reg.corp", &[("Registry", "reg.corp:5000=a")], &[]),
        ("reg.corp:5000", &[("Registry", "*.corp:5000=a")], &["a"]),
        ("reg.corp", &[("Registry", "other.corp=a *.*.corp=b")], &[]),
        // The literal before the glob, whoever has it; of one key the earlier plugin first.
        ("reg.corp", &[("Registry", "*.corp=a reg.corp=b")], &["b", "a"]),
        ("reg.corp", &[("Registry", "*.corp=a"), ("Global", "reg.corp=b")], &["b", "a"]),
        ("reg.corp", &[("Registry", "reg.corp=a"), ("Registry", "reg.corp=b")], &["a", "b"]),
        // What ACR's plugin always adds.
        ("x.azurecr.io", &[("Registry", "*.azurecr.*= x.azurecr.io=a")], &["a"]),
        ("y.azurecr.io", &[("Registry", "*.azurecr.*=")], &[]),
        ("docker.io", &[("Registry", "docker.io=a")], &["a"]),
        ("docker.io", &[("Registry", "https://index.docker.io/v1/=a")], &["a"]),
        ("docker.io", &[("Registry", "index.docker.io=a *.io=b")], &["b"]),
        ("reg.corp", &[("Registry", "index.docker.io=a")], &[]),
        // Those for some repositories behind those for all of them.
        (
            "reg.corp",
            &[("Registry", "reg.corp/team/app=a reg.corp=b https://reg.corp/v2/team/=c")],
            &["b", "a/team/app", "c/team"],
        ),
        ("reg.corp", &[("Registry", "*.corp/team=a other.corp/team=b")], &["a/team"]),
        ("reg.corp", &[("Registry", "reg.corp/team=")], &[]),
    ];
    for (host, answers, expected) in cases {
        let (found, findings) = users(host, answers);
        assert_eq!(found, expected, "{host} {answers:?}");
        assert_eq!(findings.is_empty(), !expected.is_empty(), "{findings:?}");
    }
}

/// The kubelet asks a plugin for the images of its `matchImages` only, so a pair for the whole
/// host is not one for other repositories.
#[test]
fn a_plugin_for_some_repositories_offers_nothing_for_others() {
    let host = RegistryHost::parse("reg.corp").unwrap();
    for (pairs, expected) in [
        ("reg.corp", &["reg.corp/team"][..]),
        ("*.corp", &["reg.corp/team"]),
        ("reg.corp/team/app", &["reg.corp/team/app"]),
        ("reg.corp/team", &["reg.corp/team"]),
        ("reg.corp/other", &[]),
        ("other.corp", &[]),
    ] {
        let pair = format!("\"{pairs}\":{{\"username\":\"u\",\"password\":\"p\"}}");
        let response = response("Registry", &pair);
        let (offers, findings) = offers(&host, Some("team"), &[("one", &response)]);
        let names: Vec<_> = offers.iter().map(|offer| offer.name.as_str()).collect();
        assert_eq!(names, expected, "{pairs}");
        assert_eq!(findings.is_empty(), !expected.is_empty(), "{findings:?}");
    }
}

#[test]
fn what_no_document_can_say_is_named() {
    let (found, findings) = users("reg.corp", &[("Registry", "reg.corp/Team=a reg.corp/p*=b")]);
    assert!(found.is_empty());
    assert!(findings[0].contains("2 keys of its answer have a path that is no"), "{findings:?}");
    let (found, findings) = users("reg.corp", &[("Registry", "hunter2%zz/%zz=a reg.corp=b")]);
    assert_eq!(found, ["b"]);
    assert!(findings[0].contains("1 keys"), "{findings:?}");
    assert!(!findings[0].contains("hunter2"), "{findings:?}");
}

/// `cacheKeyType: Image` was taken for "this pair is for one image", and the answers of GKE's
/// plugin, which writes it beside keys for whole hosts, were thrown away: the pull was anonymous.
#[test]
fn an_answer_for_an_image_is_used_by_its_keys() {
    let (found, findings) =
        users("reg.corp", &[("Image", "reg.corp=a *.corp=b"), ("Registry", "reg.corp=c")]);
    assert_eq!(found, ["a", "c", "b"]);
    assert!(findings.is_empty(), "{findings:?}");
    let (found, findings) = users("reg.corp", &[("Image", "reg.corp/probe=a reg.corp/team=b")]);
    assert_eq!(found, ["b/team"]);
    assert!(findings[0].contains("1 keys of its answer are for the image alone"), "{findings:?}");
}

/// What the real programs answered: auth-provider-gcp and ecr-credential-provider.
#[test]
fn recorded_answers_offer_what_the_kubelet_takes_of_them() {
    const GCR: &str =
        include_str!("../../../tests/data/kubelet/answer-auth-provider-gcp-gcr.io.json");
    const PKG: &str =
        include_str!("../../../tests/data/kubelet/answer-auth-provider-gcp-europe.json");
    const ECR: &str =
        include_str!("../../../tests/data/kubelet/answer-ecr-credential-provider-123456.json");
    let ecr = "123456789012.dkr.ecr.eu-central-1.amazonaws.com";
    for (text, host, expected, finding) in [
        (GCR, "gcr.io", &["_token"][..], ""),
        (GCR, "eu.gcr.io", &["_token"], ""),
        (PKG, "europe-docker.pkg.dev", &["_token", "_token"], ""),
        (PKG, "quay.io", &[], "none of the keys of its answer is for it"),
        (ECR, ecr, &["AWS"], ""),
        (ECR, &format!("{ecr}:443"), &[], "without the port; name the registry without its port"),
    ] {
        let response = Response::parse(text.as_bytes(), Version::V1).unwrap();
        let host = RegistryHost::parse(host).unwrap();
        let (offers, findings) = offers(&host, None, &[("plugin", &response)]);
        let users: Vec<_> = offers
            .iter()
            .map(|offer| match &offer.offered {
                Credentials::Basic { username, .. } => username.as_str(),
                _ => panic!("{offer:?}"),
            })
            .collect();
        assert_eq!(users, expected, "{host}");
        assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
        let told = findings.iter().all(|told| told.text.contains(finding));
        assert!(told, "{findings:?}");
    }
}

/// ECR's plugin, asked for `HOST:443`, answers for `HOST`. The pull was anonymous and nobody said a
/// word.
#[test]
fn a_plugin_that_adds_nothing_is_told_with_the_reason() {
    for (host, pairs, loss, text) in [
        ("reg.corp", "other.corp=a", Loss::Lost, "none of the keys"),
        ("reg.corp:443", "reg.corp=a", Loss::Lost, "without its port"),
        ("reg.corp", "reg.corp:443=a", Loss::Lost, "none of the keys"),
        ("reg.corp", "", Loss::Note, "it has no credentials for it"),
        ("reg.corp", "*.corp=", Loss::Note, "empty pair"),
    ] {
        let (found, findings) = users(host, &[("Registry", pairs)]);
        assert!(found.is_empty());
        assert!(findings[0].contains(text), "{findings:?}");
        let response = response("Registry", "");
        let registry = RegistryHost::parse(host).unwrap();
        if pairs.is_empty() {
            let (_, findings) = offers(&registry, None, &[("one", &response)]);
            assert_eq!(findings[0].loss, loss);
        }
    }
    // A neighbour's key is in the way of Docker Hub's own.
    let answers = [("Registry", "*.io=a"), ("Registry", "index.docker.io=b")];
    let (found, findings) = users("docker.io", &answers);
    assert_eq!(found, ["a"]);
    assert!(findings[0].contains("provider two"), "{findings:?}");
    assert!(findings[0].contains("counts only where no other"));
}

/// A plugin that prints a file with a line end at its end was left out, where the same in a docker
/// configuration is cut off.
#[test]
fn a_line_end_behind_a_password_is_cut_off_as_everywhere() {
    let host = RegistryHost::parse("reg.corp").unwrap();
    for (password, expected) in [
        ("p", "p"),
        ("p\\n", "p"),
        ("p\\r\\n", "p"),
        ("p\\u0000\\u0000", "p"),
        // A file.
        ("p\\n\\n", "p\n\n"),
        ("p\\nq\\r\\n", "p\nq\r\n"),
        (" p ", " p "),
    ] {
        let auth = format!("\"reg.corp\":{{\"username\":\"u\",\"password\":\"{password}\"}}");
        let response = response("Registry", &auth);
        let (offers, findings) = offers(&host, None, &[("one", &response)]);
        let Credentials::Basic { password: got, .. } = &offers[0].offered else {
            panic!("{offers:?}")
        };
        assert_eq!(got.expose(), expected);
        let is_cut = password.contains('\\') && !expected.contains('\n');
        assert_eq!(findings.len(), usize::from(is_cut));
    }
}
