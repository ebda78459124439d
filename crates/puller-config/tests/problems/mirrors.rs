//! What is wrong with roots and mirrors.

use puller_config::{Document, MAX_CERTIFICATES};

use crate::problems::{ROOT, entry};

#[test]
fn roots_and_mirrors_are_checked_by_key() {
    let broken = ROOT.replacen("MIIB", "MI!B", 1);
    let roots = format!(
        "ca-certs = '''\n{broken}{}{broken}'''",
        ROOT.replace("CERTIFICATE", "EC PRIVATE KEY")
    );
    let many = format!("ca-certs = '''\n{}'''", ROOT.repeat(MAX_CERTIFICATES + 1));
    for (keys, expected) in [
        (
            &*roots,
            "line 2: registries.r.ca-certs: block 1 is not valid base64\n\
             line 2: registries.r.ca-certs: block 2 is not a CERTIFICATE; only certificates belong \
             here, never private keys\n\
             line 2: registries.r.ca-certs: block 3 is not valid base64",
        ),
        (&many, "line 2: registries.r.ca-certs: an entry has at most 512 certificates"),
        (
            "ca-certs = '-----BEGIN CERTIFICATE-----'",
            "line 2: registries.r.ca-certs: block 1 is incomplete: each \"-----BEGIN \
            CERTIFICATE-----\" needs its \"-----END CERTIFICATE-----\"",
        ),
        (
            "mirror = \"mirror.corp\"",
            "line 2: registries.r.mirror: a mirror is asked over \"https://\" or \"http://\"",
        ),
        (
            "mirror = \"https://\"\nmirror-fallback = true",
            "line 2: registries.r.mirror: not a URL such as \"https://mirror.corp/prefix\"",
        ),
    ] {
        assert_eq!(entry(keys), expected, "{keys}");
    }
}

#[test]
fn lists_of_mirrors_are_checked_by_key() {
    let url = "{url = 'https://m'}";
    let below = "{url = 'https://m', prefix = 'a/b'}";
    let other = "{url = 'https://m', prefix = 'a/bc'}";
    let each = |count: usize| {
        let item = |number| format!("{{url = 'https://m', prefix = 'n{number}'}},");
        format!("mirrors = [{}]", (0..count).map(item).collect::<String>())
    };
    let rule = "{from = 'a', to = 'b'}";
    for (keys, expected) in [
        (
            "mirror = 'https://m'\nmirrors = ['https://m']".to_owned(),
            "line 3: registries.r.mirrors: stands beside \"mirror\"",
        ),
        (format!("mirrors = [{}]", [url; 8].join(",")), ""),
        (
            format!("mirrors = [{}]", [url; 9].join(",")),
            "line 2: registries.r.mirrors, item 1: an entry has at most 256 mirrors, and 8 for one \
            repository",
        ),
        (each(256), ""),
        (each(257), "line 2: registries.r.mirrors: an entry has at most 256 mirrors"),
        // Those of a repository are also those of what it is below.
        (format!("mirrors = [{}]", [url, below, other, below].repeat(4)[..11].join(",")), ""),
        (
            format!("mirrors = [{}]", [url, below, other, below].repeat(4)[..12].join(",")),
            "line 2: registries.r.mirrors, item 2: an entry has at most 256 mirrors",
        ),
        (
            "mirrors = 'https://m'".into(),
            "line 2: registries.r.mirrors: expected array, found string",
        ),
        (
            "mirrors = [1]".into(),
            "line 2: registries.r.mirrors, item 1: expected string or table, found integer",
        ),
        (
            "mirrors = ['https://m', 'm']".into(),
            "line 2: registries.r.mirrors, item 2: a mirror is asked over",
        ),
        (
            "mirrors = [{prefix = 'a'}]".into(),
            "line 2: registries.r.mirrors, item 1: has no \"url\"",
        ),
        (
            "mirrors = [{url = 'https://m', prefix = 'a/'}]".into(),
            "line 2: registries.r.mirrors, item 1.prefix: behind the host follow",
        ),
        (
            "mirrors = [{url = 'https://m', username = 'a'}]".into(),
            "line 2: registries.r.mirrors, item 1.username: unknown key",
        ),
        (
            "mirrors = ['https://m', {url = 'http://n'}]".into(),
            "line 2: registries.r.mirrors, item 2: plain HTTP needs",
        ),
        (format!("rewrite = [{rule}]"), "line 2: registries.r.rewrite: has no \"mirror\""),
        (
            format!("mirror = 'https://m'\nrewrite = [{}]", [rule; 17].join(",")),
            "line 3: registries.r.rewrite: a list has at most 16 rules",
        ),
        (
            "mirror = 'https://m'\nrewrite = [{from = 'a'}]".into(),
            "line 3: registries.r.rewrite, item 1: needs \"from\" and \"to\"",
        ),
        (
            "mirror = 'https://m'\nrewrite = [{from = '(', to = 'b'}]".into(),
            "line 3: registries.r.rewrite, item 1: \"from\" is no regular expression",
        ),
        (
            "mirror = 'https://m'\nrewrite = [{from = 'a', to = 'b', x = 1}]".into(),
            "line 3: registries.r.rewrite, item 1.x: unknown key",
        ),
    ] {
        if expected.is_empty() {
            let text = format!("[registries.r]\n{keys}");
            assert!(Document::parse(text.as_bytes()).is_ok(), "{keys}");
            continue;
        }
        let found = entry(&keys);
        assert!(found.starts_with(expected), "{keys}\n{found}");
    }
}

#[test]
fn mirror_over_plain_http_needs_leave() {
    let refused = "line 2: registries.r.mirror: plain HTTP needs \"plain-http = true\" here or an \
    entry for the mirror's own host with \"plain-http\" or \"insecure-skip-verify\"; where there \
    are no credentials, \"insecure-skip-verify\" here is enough";
    for (more, is_allowed) in [
        ("", false),
        ("plain-http = true", true),
        // With nothing to tell, the mirror is asked as the registry would be.
        ("insecure-skip-verify = true", true),
        ("insecure-skip-verify = true\nregistrytoken = \"t\"", false),
        ("[registries.\"mirror.corp\"]\nplain-http = true", true),
        ("[registries.\"mirror.corp\"]\ninsecure-skip-verify = true", true),
        ("[registries.\"mirror.corp:80\"]\nplain-http = true", true),
        ("[registries.\"mirror.corp:443\"]\nplain-http = true", false),
        // A suffix is not the mirror's own name.
        ("[registries.\".corp\"]\nplain-http = true", false),
        // The mirror's own entry decides alone.
        ("plain-http = true\n[registries.\"mirror.corp\"]\nplain-http = false", false),
    ] {
        let text = format!("[registries.r]\nmirror = \"http://mirror.corp/prefix\"\n{more}\n");
        let shown = Document::parse(text.as_bytes()).err().map(|problems| problems.to_string());
        assert_eq!(shown.as_deref(), (!is_allowed).then_some(refused), "{more}");
    }
}

/// Such a document was once called valid, and then every pull through the mirror was refused.
#[test]
fn what_a_mirrors_own_entry_refers_to_is_not_fetched() {
    let uri = |key: &str| format!("{key} = \"kbs:///default/x/y\"\n");
    let (credentials, roots) = (uri("credentials-uri"), uri("ca-certs-uri"));
    let is_refused = |measured: bool, registry: &str, own: &str| {
        let text = format!(
            "[registries.\"registry.corp\"]\nmirror = \"https://mirror.corp\"\n{registry}\
             [registries.\"mirror.corp\"]\n{own}"
        );
        let parsed = if measured {
            Document::parse_measured(text.as_bytes())
        } else {
            Document::parse(text.as_bytes())
        };
        let Err(problems) = parsed else { return false };
        let shown = problems.to_string();
        let expected = "line 2: registries.\"registry.corp\".mirror: the mirror's own entry has ";
        assert!(shown.starts_with(expected), "{shown}");
        true
    };
    for (registry, own, of_host, of_owner) in [
        ("", "", false, false),
        ("", credentials.as_str(), true, true),
        ("", roots.as_str(), true, true),
        ("mirror-fallback = true\n", credentials.as_str(), true, true),
        (roots.as_str(), roots.as_str(), true, true),
        (roots.as_str(), "", false, false),
        // Of an entry of the host with credentials-uri the mirror does not count. The owner's
        // mirror finds its credentials in the same docker configuration, but no roots.
        (credentials.as_str(), credentials.as_str(), false, false),
        (credentials.as_str(), roots.as_str(), false, true),
    ] {
        assert_eq!(is_refused(false, registry, own), of_host, "{registry}{own}");
        assert_eq!(is_refused(true, registry, own), of_owner, "{registry}{own}");
    }
}
