//! Every rule that a document can break, with the line and the key that it is reported at.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod later_keys;
mod mirrors;
mod owner;

use puller_config::{
    Document, MAX_CREDENTIAL_BYTES, MAX_DOCUMENT_BYTES, MAX_NO_PROXY_BYTES, MAX_PROBLEMS,
    MAX_REGISTRIES, MAX_VARIABLES, Rule,
};

const ROOT: &str = include_str!("data/root.pem");

/// What is shown of a document that must have problems.
fn problems(text: &[u8]) -> String {
    Document::parse(text).expect_err("a document with problems").to_string()
}

/// An entry for `r` whose first key is on line 2.
fn entry(keys: &str) -> String {
    problems(format!("[registries.r]\n{keys}").as_bytes())
}

#[test]
fn text_that_is_no_toml_is_reported_by_its_first_error() {
    for (text, expected) in [
        (&b"a = \n"[..], "line 1: not TOML: string values must be quoted, expected literal string"),
        (
            b"[registries.\"r\"]\nusername = \"hunter2\n",
            "line 2: not TOML: invalid basic string, expected `\"`",
        ),
        (b"\n\n[registries", "line 3: not TOML: unclosed table, expected `]`"),
        (b"[registries.r]\n[registries.r]\n", "line 2: not TOML: duplicate key r"),
        (
            b"[registries.r]\nusername = \"hunter2\"\nusername = \"hunter2\"\n",
            "line 3: not TOML: duplicate key username",
        ),
        (
            b"[registries.'robot:hunter2@r.corp']\n\n[registries.\"robot:hunter2@r.corp\"]\n",
            "line 3: not TOML: duplicate key \"[redacted]@r.corp\"",
        ),
        (b"[registries.r]\n\nauth = \"\xff\"", "line 3: not UTF-8 text"),
    ] {
        assert_eq!(problems(text), expected, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn size_is_bounded_before_anything_is_read() {
    let mut text = vec![b'\n'; MAX_DOCUMENT_BYTES];
    assert!(Document::parse(&text).is_ok());
    text.push(0xff);
    assert_eq!(problems(&text), "a document has at most 1048576 bytes");
}

#[test]
fn nesting_is_bounded() {
    let half = MAX_DOCUMENT_BYTES / 2;
    let quarter = half / 2;
    for text in [
        format!("a = {}", "[".repeat(half)),
        format!("a = {}{}", "[".repeat(quarter), "]".repeat(quarter)),
        format!("a = {}", "{a=".repeat(quarter)),
        format!("a{} = 1", ".a".repeat(quarter)),
        format!("[a{}]", ".a".repeat(quarter)),
        format!("[[a{}]]", ".a".repeat(quarter)),
        format!("[a{0}]\na{0} = {1}1{2}", ".a".repeat(79), "[".repeat(79), "]".repeat(79)),
    ] {
        assert!(Document::parse(text.as_bytes()).is_err(), "{}", &text[..40]);
    }
    assert_eq!(
        problems(format!("[a{}]", ".a".repeat(100)).as_bytes()),
        "not TOML: recursion limit"
    );
}

#[test]
fn structure_is_checked_by_key() {
    for (text, expected) in [
        ("version = 1", "line 1: version: unknown key"),
        ("[registry.\"r.corp\"]", "line 1: registry: unknown key; did you mean \"registries\"?"),
        ("[extra_env]", "line 1: extra_env: unknown key; did you mean \"extra-env\"?"),
        ("[Registries.r]", "line 1: Registries: unknown key; did you mean \"registries\"?"),
        ("extra-env = 1", "line 1: extra-env: expected table, found integer"),
        ("[[registries]]", "line 1: registries: expected table, found array"),
        ("[registries]\n\nr = true", "line 3: registries.r: expected table, found boolean"),
        (
            "[registries.r.corp]",
            "line 1: registries.r.corp: unknown table; a registry name with a dot in it must be \
            quoted, as in [registries.\"registry.corp\"]",
        ),
        (
            "[registries.r]\nUserName = \"a\"",
            "line 2: registries.r.UserName: unknown key; did you mean \"username\"?",
        ),
        (
            "[registries.r]\npasword = \"hunter2\"",
            "line 2: registries.r.pasword: unknown key; did you mean \"password\"?",
        ),
        (
            "[registries.r]\ninsecure = true",
            "line 2: registries.r.insecure: unknown key; did you mean \"insecure-skip-verify\"?",
        ),
        ("[registries.r]\ntoken = 'hunter2'", "line 2: registries.r.token: unknown key"),
        (
            "[registries.r]\nca_certs = \"a\"",
            "line 2: registries.r.ca_certs: unknown key; did you mean \"ca-certs\"?",
        ),
        (
            "[registries.r.identity_token]",
            "line 1: registries.r.identity_token: unknown key; did you mean \"identitytoken\"?",
        ),
        ("[registries.r]\n\"to\\nken\" = 1", "line 2: registries.r.\"to\\u000Aken\": unknown key"),
        ("[registries.r]\nauth = 1", "line 2: registries.r.auth: expected string, found integer"),
        (
            "[registries.r]\nca-certs = [\"a\"]",
            "line 2: registries.r.ca-certs: expected string, found array",
        ),
        (
            "[registries.r]\nmirror = 1.5",
            "line 2: registries.r.mirror: expected string, found float",
        ),
        (
            "[registries.r]\nplain-http = \"true\"",
            "line 2: registries.r.plain-http: expected boolean, found string",
        ),
        (
            "[registries.r]\ninsecure-skip-verify = 1",
            "line 2: registries.r.insecure-skip-verify: expected boolean, found integer",
        ),
        (
            "[registries.r]\nmirror-fallback = false",
            "line 2: registries.r.mirror-fallback: has no \"mirror\" or \"mirrors\" beside it",
        ),
        (
            "[registries.r]\ncredentials-optional = true",
            "line 2: registries.r.credentials-optional: has no \"credentials-uri\" beside it",
        ),
        (
            "[registries.r]\nca-certs = 'none'\nweb-roots = true",
            "line 3: registries.r.web-roots: has no \"ca-certs\" with a certificate beside it; \
            without those the web's hold",
        ),
    ] {
        assert_eq!(problems(text.as_bytes()), expected, "{text}");
    }
}

/// A path was taken for commentary, so that the registry was forbidden, with a warning.
#[test]
fn a_path_is_no_root() {
    let expected = "line 2: registries.r.ca-certs: is a path, but the guest has no files of the \
        node: paste the certificates of that file here, from \"-----BEGIN CERTIFICATE-----\" on; \
        `kata-configdev new --ca FILE` does it; \"none\" trusts nobody";
    for path in [
        "/etc/ssl/corp.pem",
        "/etc/ssl/certs",
        "./Corp CA",
        "~/ca",
        " ../ca.crt ",
        "corp.PEM",
        "file:///etc/ssl/ca",
    ] {
        assert_eq!(entry(&format!("ca-certs = '{path}'")), expected, "{path}");
    }
    for words in ["none", "", "see /etc/ssl/ca.pem", "forbidden: not here"] {
        let text = format!("[registries.r]\nca-certs = '{words}'");
        assert!(Document::parse(text.as_bytes()).is_ok(), "{words}");
    }
}

#[test]
fn names_are_checked_by_key() {
    for (name, expected) in [
        ("\"\"", "line 2: registries.\"\": a registry name must not be empty"),
        (
            "\"https://r.corp\"",
            "line 2: registries.\"https://r.corp\": a registry name has no scheme: write the host \
            alone, without \"https://\"",
        ),
        (
            "\"r.corp/team/\"",
            "line 2: registries.\"r.corp/team/\": behind the host follow whole segments of \
            repository names, as in \"registry.corp/team/app\": lower-case letters, digits and \
            \"-\", \"_\" or \".\" between them, at most 255 bytes, without \"/\" at the end",
        ),
        (
            "\".corp/team\"",
            "line 2: registries.\".corp/team\": only a single host's name may have repositories \
            behind it, no suffix and not \".\"",
        ),
        (
            "\"robot:hunter2@r.corp\"",
            "line 2: registries.\"[redacted]@r.corp\": a registry name holds no user name or \
            password: write credentials as \"username\" and \"password\"",
        ),
        (
            "\".r.corp:5000\"",
            "line 2: registries.\".r.corp:5000\": a suffix has no port: only the name of a single \
            host may carry one",
        ),
    ] {
        assert_eq!(problems(format!("\n[registries.{name}]").as_bytes()), expected);
    }
}

#[test]
fn two_names_for_the_same_hosts_are_an_error_that_names_both() {
    for (first, second) in [
        ("r.corp", "r.corp."),
        ("r.corp", "R.Corp"),
        (".r.corp.", ".r.corp"),
        ("r.corp.:5000", "r.corp:5000"),
        ("docker.io", "index.docker.io"),
        ("registry-1.docker.io", "index.docker.io"),
        ("[::1]", "[0::1]"),
    ] {
        let text = format!("[registries.\"{first}\"]\n\n[registries.\"{second}\"]\n");
        let expected = format!(
            "line 3: registries.\"{second}\": names the same hosts as registries.\"{first}\" on \
            line 1; write one entry"
        );
        assert_eq!(problems(text.as_bytes()), expected);
    }
}

#[test]
fn credentials_are_checked_by_key() {
    let long = format!("registrytoken = \"{}\"", "a".repeat(MAX_CREDENTIAL_BYTES + 1));
    for (keys, expected) in [
        ("username = \"a\"", "line 2: registries.r.username: has no \"password\" beside it"),
        ("password = \"a\"", "line 2: registries.r.password: has no \"username\" beside it"),
        (
            "password = \"a\"\nidentitytoken = \"b\"",
            "line 2: registries.r.password: has no \"username\" beside it",
        ),
        (
            "username = \"a\"\npassword = \"\"",
            "line 3: registries.r.password: must not be empty; leave the key out for an anonymous \
            pull",
        ),
        (
            "auth = \"\"",
            "line 2: registries.r.auth: must not be empty; leave the key out for an anonymous pull",
        ),
        (
            "identitytoken = \"\"",
            "line 2: registries.r.identitytoken: must not be empty; leave the key out for an \
            anonymous pull",
        ),
        (&long, "line 2: registries.r.registrytoken: has at most 16384 bytes"),
        (
            "username = \"a\\r\\nX-Evil: 1\"\npassword = \"b\"",
            "line 2: registries.r.username: must not contain control characters such as line ends",
        ),
        (
            "username = \"a\"\npassword = \"b\\nc\\u0000\"",
            "line 3: registries.r.password: must not contain control characters such as line ends",
        ),
        (
            "username = \"a\"\npassword = \"\"\"\nb\tc\n\"\"\"",
            "line 3: registries.r.password: ends with a line end, which is no part of a password \
            of one line; remove it",
        ),
        (
            "identitytoken = \"\"\"\na\n\"\"\"",
            "line 2: registries.r.identitytoken: must not contain control characters such as line \
            ends",
        ),
        (
            "registrytoken = \"a\\u0000\"",
            "line 2: registries.r.registrytoken: must not contain control characters such as line \
            ends",
        ),
        (
            "registrytoken = \"a b\"",
            "line 2: registries.r.registrytoken: a bearer token consists of visible ASCII \
            characters, without spaces",
        ),
        (
            "registrytoken = \"\u{e9}\"",
            "line 2: registries.r.registrytoken: a bearer token consists of visible ASCII \
            characters, without spaces",
        ),
        (
            "username = \"a:b\"\npassword = \"c\"",
            "line 2: registries.r.username: a user name must not contain a colon",
        ),
        ("auth = \"hunter2!\"", "line 2: registries.r.auth: not valid base64 of \"user:password\""),
        ("auth = \"YTpi \"", "line 2: registries.r.auth: not valid base64 of \"user:password\""),
        ("auth = \"YTpj_-__\"", "line 2: registries.r.auth: not valid base64 of \"user:password\""),
        (
            "auth = \"YTr/\"",
            "line 2: registries.r.auth: decodes to something that is not UTF-8 text",
        ),
        (
            "auth = \"aHVudGVyMg==\"",
            "line 2: registries.r.auth: decodes to text without the colon between user name and \
            password",
        ),
        (
            "auth = \"Og==\"",
            "line 2: registries.r.auth: decodes to an empty user name and an empty password; leave \
            the key out for an anonymous pull",
        ),
        (
            // "a:b" with a line end, and "a", line end, "b:c".
            "auth = \"YTpiCg==\"",
            "line 2: registries.r.auth: decodes to text with a control character; if it was made \
            with `echo`, use `printf %s`",
        ),
        (
            "auth = \"YQpiOmM=\"",
            "line 2: registries.r.auth: decodes to text with a control character; if it was made \
            with `echo`, use `printf %s`",
        ),
        (
            "auth = \"YTpi\"\nusername = \"a\"\npassword = \"c\"",
            "line 2: registries.r.auth: disagrees with \"username\" and \"password\"; write one or \
            the other",
        ),
        (
            "auth = \"YTpi\"\nusername = \"b\"\npassword = \"b\"",
            "line 2: registries.r.auth: disagrees with \"username\" and \"password\"; write one or \
            the other",
        ),
    ] {
        assert_eq!(entry(keys), expected, "{keys}");
    }
}

#[test]
fn variables_are_checked_by_key() {
    let long = format!("NO_PROXY = \"{}\"", "a,".repeat(MAX_NO_PROXY_BYTES / 2 + 1));
    for (variables, expected) in [
        ("HTTP_PROXY = 1", "line 2: extra-env.HTTP_PROXY: expected string, found integer"),
        ("PATH = [\"/bin\"]", "line 2: extra-env.PATH: expected string, found array"),
        (
            "https_proxy = \"socks4://robot:hunter2@proxy.corp\"",
            "line 2: extra-env.https_proxy: a proxy is reached over \"http://\", \"https://\" \
            or \"socks5://\"; other kinds are not supported",
        ),
        (
            "http_proxy = \"http://a\"\nHTTP_PROXY = \"http://b\"",
            "line 2: extra-env.http_proxy: disagrees with HTTP_PROXY, which is the same variable; \
            write one of them",
        ),
        (
            "no_proxy = \"a\"\nNO_PROXY = \"\"",
            "line 2: extra-env.no_proxy: disagrees with NO_PROXY, which is the same variable; \
            write one of them",
        ),
        (
            "NO_PROXY = \"a\\n\"",
            "line 2: extra-env.NO_PROXY: must not contain control characters such as line ends",
        ),
        (&long, "line 2: extra-env.NO_PROXY: has at most 16384 bytes"),
    ] {
        assert_eq!(
            problems(format!("[extra-env]\n{variables}").as_bytes()),
            expected,
            "{variables}"
        );
    }
}

#[test]
fn numbers_are_bounded_by_their_limits() {
    let registries =
        |count| (0..count).map(|index| format!("[registries.r{index}]\n")).collect::<String>();
    assert!(Document::parse(registries(MAX_REGISTRIES).as_bytes()).is_ok());
    let too_many = problems(registries(MAX_REGISTRIES + 1).as_bytes());
    assert_eq!(too_many, "line 1: registries: a document has at most 1024 registries");

    let variables =
        |count| (0..count).map(|index| format!("V{index} = \"\"\n")).collect::<String>();
    assert!(
        Document::parse(format!("[extra-env]\n{}", variables(MAX_VARIABLES)).as_bytes()).is_ok()
    );
    let too_many = problems(format!("[extra-env]\n{}", variables(MAX_VARIABLES + 1)).as_bytes());
    assert_eq!(too_many, "line 1: extra-env: \"extra-env\" has at most 256 variables");

    let unknown = (0..MAX_PROBLEMS + 2).map(|index| format!("k{index} = 1\n")).collect::<String>();
    let problems = Document::parse(unknown.as_bytes()).unwrap_err();
    assert_eq!((problems.iter().count(), problems.unlisted()), (MAX_PROBLEMS, 2));
    assert!(problems.to_string().ends_with("line 1000: k999: unknown key\nand 2 more"));
}

#[test]
fn every_problem_is_collected_and_sorted_by_line() {
    let text = "\
[registries.\"r.corp/X\"]
username = \"a\"
auth = 7

[extra-env]
HTTP_PROXY = \"ftp://x\"

[registries.b]
plain-http = 1
mirror-fallback = true

[registries.\"B.\"]

[more]
";
    let problems = Document::parse(text.as_bytes()).unwrap_err();
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.line, &*problem.key, &problem.rule)).collect();
    assert_eq!(
        found,
        [
            (1, "registries.\"r.corp/X\"", &Rule::Name(puller_config::InvalidName::Repositories)),
            (2, "registries.\"r.corp/X\".username", &Rule::UsernameWithoutPassword),
            (
                3,
                "registries.\"r.corp/X\".auth",
                &Rule::WrongType { expected: "string", found: "integer" }
            ),
            (6, "extra-env.HTTP_PROXY", &Rule::ProxyScheme),
            (
                9,
                "registries.b.plain-http",
                &Rule::WrongType { expected: "boolean", found: "integer" }
            ),
            (10, "registries.b.mirror-fallback", &Rule::FallbackWithoutMirror),
            (
                12,
                "registries.\"B.\"",
                &Rule::DuplicateName { first: "registries.b".to_owned(), line: 8 }
            ),
            (14, "more", &Rule::UnknownKey { suggestion: None }),
        ]
    );
}
