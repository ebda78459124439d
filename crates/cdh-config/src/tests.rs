#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use puller_config::{PolicyDialect, PolicySource};

use crate::{Meaning, read};

const ROOT: &str = include_str!("../../puller-config/tests/data/root.pem");

const AGENT: &str = "unix:///run/confidential-containers/attestation-agent/attestation-agent.sock";

/// What was meant, or the problems.
fn meant(cdh: &str, parameters: &str) -> Result<Meaning, String> {
    read(Some(cdh.as_bytes()), parameters).map_err(|problems| crate::lines(&problems))
}

#[test]
fn each_key_has_its_counterpart() {
    let auth = "authenticated_registry_credentials_uri = 'kbs:///a/b/c'\n";
    let by_uri = "credentials-uri = \"kbs:///a/b/c\"\ncredentials-optional = true\n";
    let rules = |text: &str| format!("[[image.registry_config.registry]]\n{text}");
    let mirror = |text: &str| format!("[[image.registry_config.registry.mirror]]\n{text}");
    let sources = "[resources]\nsources = [\"kbs=https://kbs.corp:8080\"]\n";
    for (cdh, expected) in [
        (String::new(), String::new()),
        (
            "socket = 'x'\ncredentials = []\n[aa]\n[log]\n[kbc]\n".into(),
            String::new(),
        ),
        (
            format!("[image]\n{auth}"),
            format!("[registries.\".\"]\n{by_uri}"),
        ),
        (
            "[image]\nmax_concurrent_layer_downloads_per_image = 3\n".into(),
            "[limits]\nlayers-at-once = 3\n".into(),
        ),
        ("[image.image_pull_proxy]\n".into(), "[extra-env]\n".into()),
        (
            "[image.image_pull_proxy]\nno_proxy = '.corp, 10.0.0.0/8,a.b'\n\
             https_proxy = 'http://u:p@proxy:3128'\nhttp_proxy = 'http://proxy'\n"
                .into(),
            "[extra-env]\nHTTPS_PROXY = \"http://u:p@proxy:3128\"\nHTTP_PROXY = \"http://proxy\"\n\
             NO_PROXY = \"corp,10.0.0.0/8,a.b\"\n"
                .into(),
        ),
        (
            rules("prefix = 'a.corp'\nblocked = true\n"),
            "[registries.\"a.corp\"]\nca-certs = \"blocked by registry_config\"\n".into(),
        ),
        (
            rules("location = 'a.corp:5000'\ninsecure = true\n"),
            "[registries.\"a.corp:5000\"]\nplain-http = true\n".into(),
        ),
        // The hub says of a location that it is insecure, and there is none.
        (
            rules("prefix = 'a.corp'\ninsecure = true\n"),
            "[registries.\"a.corp\"]\n".into(),
        ),
        (
            rules("prefix = 'a.corp'\nlocation = 'b.corp/c'\n"),
            "[registries.\"a.corp\"]\nmirrors = [\n    { url = \"https://b.corp\", \
             rewrite = [{ from = \"^\", to = \"c/\" }] },\n]\nmirror-fallback = false\n"
                .into(),
        ),
        // The registry itself first, then another place, then the registry.
        (
            rules("prefix = 'a.corp'\n")
                + &mirror("location = 'a.corp'\n")
                + &mirror("location = 'b.corp'\n"),
            "[registries.\"a.corp\"]\nmirrors = [\n    \"https://a.corp\",\n    \"https://b.corp\",\n]\n\
             mirror-fallback = true\n"
                .into(),
        ),
        (
            rules("prefix = 'a.corp'\nlocation = 'b.corp'\n") + &mirror("location = 'c.corp'\n"),
            "[registries.\"a.corp\"]\nmirrors = [\n    \"https://c.corp\",\n    \"https://b.corp\",\n]\n\
             mirror-fallback = false\n"
                .into(),
        ),
        (
            rules("prefix = 'a.corp'\nlocation = 'b.corp'\n"),
            "[registries.\"a.corp\"]\nmirror = \"https://b.corp\"\nmirror-fallback = false\n"
                .into(),
        ),
        (
            rules("prefix = '*.corp'\nlocation = 'docker.io'\n"),
            "[registries.\".corp\"]\nmirror = \"https://index.docker.io\"\n\
             mirror-fallback = false\n"
                .into(),
        ),
        (
            rules("prefix = 'a.corp'\n") + &mirror("location = 'm.corp:5000'\n"),
            "[registries.\"a.corp\"]\nmirror = \"https://m.corp:5000\"\nmirror-fallback = true\n"
                .into(),
        ),
        (
            rules("location = 'a.corp'\ninsecure = true\n") + &mirror("location = 'm.corp'\n"),
            "[registries.\"a.corp\"]\nmirror = \"https://m.corp\"\nmirror-fallback = true\n\
             plain-http = true\n"
                .into(),
        ),
        (
            rules("prefix = 'a.corp'\n") + &mirror("location = 'm.corp'\ninsecure = true\n"),
            "[registries.\"a.corp\"]\nmirror = \"http://m.corp\"\nmirror-fallback = true\n\n\
             [registries.\"m.corp:80\"]\nplain-http = true\n"
                .into(),
        ),
        // The registry itself is no mirror of itself.
        (
            rules("prefix = 'a.corp'\n") + &mirror("location = 'a.corp:443'\n"),
            "[registries.\"a.corp\"]\n".into(),
        ),
        // Every entry says what holds for all, but for what nobody may read on the way.
        (
            format!("[image]\n{auth}")
                + &rules("location = 'a.corp'\ninsecure = true\n")
                + &rules("prefix = 'b.corp'\nlocation = 'c.corp'\n"),
            format!(
                "[registries.\".\"]\n{by_uri}\n[registries.\"a.corp\"]\nplain-http = true\n\n\
                 [registries.\"b.corp\"]\n{by_uri}mirror = \"https://c.corp\"\n\
                 mirror-fallback = false\n"
            ),
        ),
        (
            "[image.registry_config]\nunqualified-search-registries = [\"docker.io\"]\n".into(),
            String::new(),
        ),
        (
            "[kbc]\nname = 'cc_kbc'\nurl = 'https://kbs.corp:8080'\n".into(),
            format!("{sources}kbs-attester = \"aa={AGENT}\"\n"),
        ),
        (
            format!(
                "[aa]\naa_socket = 'unix:///a.sock'\nx = 1\n\
                 [kbc]\nurl = 'https://kbs.corp:8080'\nkbs_cert = '''\n{ROOT}'''\n[image]\n{auth}"
            ),
            format!(
                "{sources}kbs-ca-certs = \"\"\"\n{ROOT}\"\"\"\n\
                 kbs-attester = \"aa=unix:///a.sock\"\n\n[registries.\".\"]\n{by_uri}"
            ),
        ),
    ] {
        let meaning = meant(&cdh, "").unwrap_or_else(|problems| panic!("{cdh}{problems}"));
        assert_eq!(meaning.text, expected, "{cdh}");
    }
}

#[test]
fn certificates_stand_beside_the_webs() {
    let rules = "[[image.registry_config.registry]]\nprefix = 'a.corp'\n";
    let cdh = format!("[image]\nextra_root_certificates = ['''{ROOT}''', '''\n{ROOT}''']\n{rules}");
    let meaning = meant(&cdh, "").unwrap();
    let entries: Vec<_> = meaning.document.registries.iter().collect();
    assert_eq!(entries.len(), 2);
    for (_, entry) in entries {
        let roots = entry.ca_certs.as_ref().unwrap();
        assert_eq!((roots.certificates().len(), roots.is_beside_web()), (2, true));
    }
}

#[test]
fn parameters_count_where_there_is_no_table() {
    let line = "quiet agent.https_proxy=http://x agent.no_proxy=.corp agent.https_proxy=http://p:1 \
        agent.image_registry_auth=kbs:///a/b/c agent.image_policy_file=kbs:///a/b/d\n";
    let expected = "[extra-env]\nHTTPS_PROXY = \"http://p:1\"\nNO_PROXY = \"corp\"\n\n\
        [registries.\".\"]\ncredentials-uri = \"kbs:///a/b/c\"\ncredentials-optional = true\n";
    for cdh in [None, Some("[kbc]\nname = 'cc_kbc'\n")] {
        let meaning = read(cdh.map(str::as_bytes), line).unwrap();
        assert_eq!(meaning.text, expected);
    }
    assert_eq!(meant("[image]\n", line).unwrap().text, "");
    let problems = read(None, "agent.image_registry_auth=kbs+make:///a/b/c?d=e").unwrap_err();
    assert!(problems[0].to_string().contains("a plugin of the broker"));
    let notes = crate::lines(&read(None, line).unwrap().notes);
    assert!(notes.contains("agent.image_policy_file: has no effect"), "{notes}");
    let switched = format!("agent.enable_signature_verification=true {line}");
    let policy = "[image-policy]\ndialect = \"coco\"\nuri = \"kbs:///a/b/d\"\n";
    let meaning = read(None, &switched).unwrap();
    assert!(meaning.text.contains(policy), "{}", meaning.text);
    assert!(meaning.document.image_policy.is_some());
    assert_eq!(meant("[image]\n", &switched).unwrap().text, "");
    for (parameters, problem) in [
        ("agent.image_policy_file=file:///etc/p", "none from a file of the guest"),
        ("agent.image_policy_file=", "none from a file of the guest"),
        ("agent.image_policy_file=kbs+make:///a/b", "a plugin of the broker"),
    ] {
        let switched = format!("{parameters} agent.enable_signature_verification=true");
        let problems = crate::lines(&read(None, &switched).unwrap_err());
        assert!(problems.starts_with("kernel parameter agent.image_policy_file: "), "{problems}");
        assert!(problems.contains(problem), "{problems}");
        // The hub reads the word as it is.
        let meaning = read(None, &switched.replace("=true", "=TRUE")).unwrap();
        assert!(meaning.document.image_policy.is_none());
    }
    let alone = read(None, "agent.enable_signature_verification=true").unwrap();
    assert!(alone.document.image_policy.is_none());
    assert!(crate::lines(&alone.notes).contains("without agent.image_policy_file"));
}

/// The text of CoCo's own example, and what the hub does where there are two policies.
#[test]
fn a_policy_is_coco_s_and_its_reference_wins() {
    let text = "image_security_policy = \"\"\"\n{\"default\": [{\"type\": \"reject\"}]}\n\"\"\"\n";
    let uri = "image_security_policy_uri = \"kbs:///default/security-policy/test\"\n";
    let policy = |cdh: &str| {
        let meaning = meant(&format!("[image]\n{cdh}"), "").unwrap();
        let policy = meaning.document.image_policy.unwrap();
        assert_eq!(policy.dialect, PolicyDialect::Coco);
        assert!(policy.allow_tags.is_empty());
        (policy.source, crate::lines(&meaning.notes))
    };
    let (source, notes) = policy(text);
    let PolicySource::Text(text_of_it) = source else {
        panic!("{source:?}");
    };
    assert_eq!(text_of_it, "{\"default\": [{\"type\": \"reject\"}]}\n");
    assert_eq!(notes, "");
    for both in [format!("{text}{uri}"), format!("image_security_policy = ''\n{uri}")] {
        let (source, notes) = policy(&both);
        let PolicySource::Uri(reference) = source else {
            panic!("{source:?}");
        };
        assert_eq!(reference.to_string(), "kbs:///default/security-policy/test");
        assert!(notes.contains("image.image_security_policy: has no effect"), "{notes}");
    }
}

#[test]
fn what_has_no_counterpart_is_named() {
    let rules = |text: &str| format!("[[image.registry_config.registry]]\n{text}");
    let second = rules("prefix = 'a.corp'\nlocation = 'b.corp'\n");
    let mirror = "[[image.registry_config.registry.mirror]]\n";
    let auth = "[image]\nauthenticated_registry_credentials_uri = 'kbs:///a/b/c'\n";
    let registry = "image.registry_config.registry";
    for (cdh, line, key, expected) in [
        ("[image\n".to_owned(), 1, "", ""),
        ("\n[imag]\n".into(), 2, "imag", "not a key"),
        ("[image]\nnydus = 1\n".into(), 2, "image.nydus", "not a key"),
        ("image = 1".into(), 1, "image", "expected table"),
        (
            "[kbc]\nkbs_certs = 'hunter2'\n".into(),
            2,
            "kbc.kbs_certs",
            "not a key",
        ),
        (
            "[kbc]\nurl = 'https://kbs'\nkbs_cert = 'hunter2'\n".into(),
            3,
            "kbc.kbs_cert",
            "has no PEM certificate",
        ),
        (
            "aa.aa_socket = '127.0.0.1:50002'\n[kbc]\nurl = 'https://kbs'\n".into(),
            1,
            "aa.aa_socket",
            "",
        ),
        (
            "[image]\nimage_security_policy = ''\n".into(),
            2,
            "image.image_security_policy",
            "is empty",
        ),
        (
            "[image]\nimage_security_policy = 1\n".into(),
            2,
            "image.image_security_policy",
            "expected string",
        ),
        (
            "[image]\nimage_security_policy_uri = ''\n".into(),
            2,
            "image.image_security_policy_uri",
            "the document has a policy by",
        ),
        // The hub looks at the reference alone.
        (
            "[image]\nimage_security_policy = '{}'\nimage_security_policy_uri = 'file:///hunter2'\n"
                .into(),
            3,
            "image.image_security_policy_uri",
            "the document has a policy by",
        ),
        (
            "[image]\nimage_security_policy_uri = 'kbs:///a/b'\n".into(),
            2,
            "image.image_security_policy_uri",
            "",
        ),
        (
            "[image]\nsigstore_config_uri = 1\n".into(),
            2,
            "image.sigstore_config_uri",
            "says where OpenPGP signatures lie",
        ),
        (
            "[image]\nwork_dir = ''\n".into(),
            2,
            "image.work_dir",
            "the guest's image says",
        ),
        (
            "[image]\nmax_concurrent_layer_downloads_per_image = 17\n".into(),
            2,
            "image.max_concurrent_layer_downloads_per_image",
            "is a whole number from 1 to 16",
        ),
        (
            "[image]\nregistry_configuration_uri = 'kbs:///a/b/c'\n".into(),
            2,
            "image.registry_configuration_uri",
            "the document has no rules by reference",
        ),
        (
            "[image]\n\nauthenticated_registry_credentials_uri = 'file:///hunter2'\n".into(),
            3,
            "image.authenticated_registry_credentials_uri",
            "the document has credentials by",
        ),
        (
            "[image]\nauthenticated_registry_credentials_uri = 'kbs://a/b/c'\n".into(),
            2,
            "image.authenticated_registry_credentials_uri",
            "",
        ),
        (
            "[image]\nextra_root_certificates = ['', 'hunter2']\n".into(),
            2,
            "image.extra_root_certificates, item 1",
            "has no PEM certificate",
        ),
        (
            "[image.image_pull_proxy]\nhttps_proxy = 'ftp://hunter2'\n".into(),
            2,
            "image.image_pull_proxy.https_proxy",
            "",
        ),
        (
            "[image.image_pull_proxy]\nftp_proxy = 'hunter2'\n".into(),
            2,
            "image.image_pull_proxy.ftp_proxy",
            "not a key",
        ),
        (
            "[image.registry_config]\nunqualified-search-registries = ['docker.io', 'x']\n".into(),
            2,
            "image.registry_config.unqualified-search-registries",
            "this version",
        ),
        (
            "[image.registry_config]\naliases = 1\n".into(),
            2,
            "image.registry_config.aliases",
            "not a key",
        ),
        (
            rules("prefix = 'a.corp/team'\n"),
            1,
            "[0]",
            "is for some repositories",
        ),
        (rules("blocked = true\n"), 1, "[0]", "its images are"),
        (rules("prefix = '*.corp'\n"), 1, "[0]", "has a wildcard"),
        (
            rules("prefix = 'a'\nlocation = 'b/c d'\n"),
            1,
            "[0]",
            "its path: ",
        ),
        (rules("prefix = 1\n"), 2, "[0].prefix", "expected string"),
        (rules("prefix = 'a'\nx = 1\n"), 3, "[0].x", "not a key"),
        (
            second.clone() + &second,
            4,
            "[1]",
            "is about the same images as",
        ),
        (
            rules("prefix = 'a'\n") + &format!("{mirror}location = 'b'\n").repeat(9),
            19,
            "[0].mirror[8]",
            "is one of more than 8 places",
        ),
        (
            second + mirror + "location = 'u:hunter2@c'\n",
            4,
            "[0].mirror[0]",
            "its location is no host: \"[redacted]@c\"",
        ),
        (
            format!(
                "{auth}{}{mirror}location = 'm'\ninsecure = true\n",
                rules("prefix = 'a'\n")
            ),
            5,
            "[0].mirror[0]",
            "is asked over plain HTTP",
        ),
        (
            rules("prefix = 'm'\nblocked = true\n")
                + &rules("prefix = 'a'\n")
                + mirror
                + "location = 'm'\n",
            6,
            "[1].mirror[0]",
            "its host is blocked by",
        ),
        // Images of the mirror's own host come over TLS by their own rule.
        (
            rules("prefix = 'm:80'\n")
                + &rules("prefix = 'a'\n")
                + mirror
                + "location = 'm:80'\ninsecure = true\n",
            5,
            "[1].mirror[0]",
            "",
        ),
        (
            "#".repeat(crate::MAX_CDH_BYTES + 1),
            0,
            "",
            "the file has more than 131072 bytes",
        ),
        (
            rules("").repeat(1025),
            0,
            "",
            "registry_config has more than 1024 registries",
        ),
        (
            format!(
                "[image]\nextra_root_certificates = ['''{}''']\n",
                ROOT.repeat(9)
            ) + &(0..1000)
                .map(|at| rules(&format!("prefix='r{at}'\n")))
                .collect::<String>(),
            0,
            "",
            "a document has at most",
        ),
    ] {
        let problems = read(Some(cdh.as_bytes()), "")
            .map(|_| ())
            .expect_err(&cdh[..cdh.len().min(300)]);
        let first = &problems[0];
        let key = match key.starts_with('[') {
            true => format!("{registry}{key}"),
            false => key.to_owned(),
        };
        assert_eq!(
            (first.place.line, &first.place.key),
            (line, &key),
            "{problems:#?}"
        );
        assert!(
            first.text.starts_with(expected),
            "{first}, and not {expected}"
        );
        assert!(
            !format!("{problems:?}").contains("hunter2"),
            "{problems:#?}"
        );
    }
}

#[test]
fn what_is_worth_knowing_is_told() {
    let auth = "[image]\nauthenticated_registry_credentials_uri = 'kbs://kbs.corp/a/b/c'\n\
        registry_configuration_uri = 'kbs:///a/b/d'\n";
    let rules = "[[image.registry_config.registry]]\n";
    let cdh = format!(
        "{auth}{rules}location = 'a'\ninsecure = true\n{rules}prefix = 'b'\ninsecure = true\n"
    );
    let notes = meant(&cdh, "").unwrap().notes;
    let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
    for (note, expected) in notes.iter().zip([
        "line 3: image.registry_configuration_uri: has no effect",
        "line 7: image.registry_config.registry[1]: \"insecure\" has no effect",
        "line 4: image.registry_config.registry[0]: is asked over plain HTTP, and therefore",
        "line 2: image.authenticated_registry_credentials_uri: ",
    ]) {
        assert!(note.starts_with(expected), "{notes:#?}");
    }
    // The host of the URI is told for each of the two entries.
    assert_eq!(notes.len(), 5, "{notes:#?}");
    for (kbc, expected) in [
        (
            "name = 'offline_fs_kbc'\nurl = 'https://kbs'",
            "line 2: kbc.name: is not \"cc_kbc\": ref",
        ),
        ("name = 'cc_kbc'\nurl = 'http://kbs.corp'", "line 3: kbc.url: references are left to"),
        ("url = 'https://kbs.corp/kbs/v0'", "line 2: kbc.url: references are left to"),
    ] {
        let meaning = meant(&format!("[kbc]\n{kbc}\n"), "").unwrap();
        assert_eq!((&*meaning.text, meaning.notes.len()), ("", 1), "{kbc}");
        let note = meaning.notes[0].to_string();
        assert!(note.starts_with(expected), "{note}");
    }
}
