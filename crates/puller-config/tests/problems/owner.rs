//! What only the measured document may say, and what only the node's.

use super::*;

#[test]
fn the_least_time_is_a_moment_and_the_owners_to_say() {
    let found = |value: &str| {
        let text = format!("clock-not-before = {value}");
        let error = Document::parse_measured(text.as_bytes()).unwrap_err();
        error.to_string().trim_end().to_owned()
    };
    let incomplete = "line 1: clock-not-before: needs a date, a time and an offset, as in \
    2026-11-22T00:00:00Z, and not before 1970";
    for (value, expected) in [
        ("2026-11-22", incomplete),
        ("2026-11-22T00:00:00", incomplete),
        ("00:00:00", incomplete),
        ("1969-12-31T23:59:59Z", incomplete),
        ("1970-01-01T00:59:59+01:00", incomplete),
        (
            "\"2026-11-22T00:00:00Z\"",
            "line 1: clock-not-before: expected date and time, found string",
        ),
    ] {
        assert_eq!(found(value), expected, "{value}");
    }
    assert_eq!(
        problems(b"clock-not-before = 2026-11-22T00:00:00Z"),
        "line 1: clock-not-before: belongs in the measured document, imagepuller.toml in the \
        initdata: the host, which sets the guest's clock, does not say what it is checked against"
    );
}

#[test]
fn pins_are_the_owners_to_say_and_bounded() {
    let found = |text: &str| match Document::parse_measured(text.as_bytes()) {
        Ok(checked) => checked.warnings.iter().map(ToString::to_string).collect(),
        Err(problems) => problems.to_string(),
    };
    let many = |count: usize| (0..count).map(|number| format!("a{number} = 'b'\n"));
    let many = |count: usize| format!("[pins]\n{}", many(count).collect::<String>());
    let list = |count: usize| format!("pins.a = [{}]", "'b',".repeat(count));
    let range = "line 1: pins.a: a list has 1 to 64 digests";
    for (text, expected) in [
        ("pins = {}\nonly-pins = false", ""),
        ("pins.a = 'b'\nonly-pins = true", ""),
        ("pins.a = ['b', 'c']", ""),
        (
            "only-pins = true\n[pins]",
            "line 1: only-pins: makes the guest refuse every image, because [pins] has none",
        ),
        (
            "[pins]\na = 'b'\nonly-pins = true",
            "line 3: pins.only-pins: stands at the top of the document, before [pins] and every \
            other table",
        ),
        ("pins = 'a'", "line 1: pins: expected table, found string"),
        ("only-pins = 'true'", "line 1: only-pins: expected boolean, found string"),
        ("[pins.registry.corp]", "line 1: pins.registry: expected string or array, found table"),
        ("pins.a = ['b', 1]", "line 1: pins.a: expected string, found integer"),
        (&list(0), range),
        (&list(64), ""),
        (&list(65), range),
        (&many(4096), ""),
        (&many(4097), "line 1: pins: there are at most 4096 pins"),
        ("only-pin = true", "line 1: only-pin: unknown key; did you mean \"only-pins\"?"),
        ("onlypins = true", "line 1: onlypins: unknown key; did you mean \"only-pins\"?"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    let of_host = "belongs in the measured document, imagepuller.toml in the initdata: the host \
        does not say which images run";
    for (text, key) in [
        ("[pins]", "pins"),
        ("pins.a = 'b'", "pins"),
        ("only-pins = true", "only-pins"),
        ("only-pins = false", "only-pins"),
    ] {
        let expected = format!("line 1: {key}: {of_host}");
        assert_eq!(problems(text.as_bytes()), expected);
    }
}

#[test]
fn an_image_policy_is_the_owners_to_say_and_in_one_place() {
    let found = |text: &str| match Document::parse_measured(text.as_bytes()) {
        Ok(checked) => checked.warnings.iter().map(ToString::to_string).collect(),
        Err(problems) => problems.to_string(),
    };
    let list = |key: &str, count: usize| {
        format!("image-policy = {{ file = 'a', {key} = [{}] }}", "'b',".repeat(count))
    };
    let second = "is a second place of the policy; write one of \"text\", \"file\" and \"uri\"";
    let in_data = "write the key of the file in [data] of the initdata, such as \"policy.json\"";
    for (text, expected) in [
        ("[image-policy]\ntext = '{}'", String::new()),
        ("[image-policy]\nfile = 'policy.json'\ndialect = 'coco'", String::new()),
        ("[image-policy]\nuri = 'kbs:///a/b/c'", String::new()),
        ("[image-policy]\nuri = 'sealed.YQ.YQ.YQ'", String::new()),
        (
            "[image-policy]\nrefuse = []",
            "line 1: image-policy: has no policy; write one of \"text\", \"file\" and \"uri\"".into(),
        ),
        (
            "[image-policy]\nuri = 'kbs:///a/b/c'\nfile = 'a'\ntext = '{}'",
            format!("line 2: image-policy.uri: {second}\nline 3: image-policy.file: {second}"),
        ),
        (
            "image-policy.text = ' '",
            "line 1: image-policy.text: is empty; write a policy as containers-policy.json(5) says, \
            or leave [image-policy] out"
                .into(),
        ),
        (
            "image-policy.file = '/policy.json'",
            format!("line 1: image-policy.file: not a plain file name: it has a slash; {in_data}"),
        ),
        (
            "image-policy.file = '..'",
            format!("line 1: image-policy.file: not a plain file name: it is a directory; {in_data}"),
        ),
        (
            "[image-policy]\nfile = 'a'\ndialect = 'Coco'",
            "line 3: image-policy.dialect: expected \"containers\" or \"coco\"".into(),
        ),
        (
            "[image-policy]\nfile = 'a'\nsigned-not-before = 2026-01-01",
"line 3: image-policy.signed-not-before: needs a date, a time and an offset, as in \
            2026-11-22T00:00:00Z, and not before 1970"
                .into(),
        ),
        (
            "[image-policy]\nfile = 'a'\nallow-tag = []",
            "line 3: image-policy.allow-tag: unknown key; did you mean \"allow-tags\"?".into(),
        ),
        (
            "[image-policy]\nfile = 'a'\nrefuse = 'sha256:'",
            "line 3: image-policy.refuse: expected array, found string".into(),
        ),
        ("image-policy = 'a'", "line 1: image-policy: expected table, found string".into()),
        (
            "[imagepolicy]",
            "line 1: imagepolicy: unknown key; did you mean \"image-policy\"?".into(),
        ),
        (&list("allow-tags", 256), String::new()),
        (
            &list("allow-tags", 257),
            "line 1: image-policy.allow-tags: there are at most 256 scopes".into(),
        ),
        (&list("refuse", 4096), String::new()),
        (
            &list("refuse", 4097),
            "line 1: image-policy.refuse: there are at most 4096 digests".into(),
        ),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    let of_host = "line 1: image-policy: belongs in the measured document, imagepuller.toml in the \
        initdata: the host does not say which signatures images need";
    for text in ["[image-policy]", "image-policy.file = 'a'", "[image-policy]\nunknown = 1"] {
        assert_eq!(problems(text.as_bytes()), of_host, "{text}");
    }
}

#[test]
fn limits_of_pulls_are_the_owners_to_say_and_bounded() {
    let found = |text: &str| {
        let error = Document::parse_measured(format!("[limits]\n{text}").as_bytes()).unwrap_err();
        error.to_string().trim_end().to_owned()
    };
    let attempts = "line 2: limits.attempts: is a whole number from 0 to 100";
    for (text, expected) in [
        ("attempts = -1", attempts),
        ("attempts = 101", attempts),
        ("attempts = 0xffffffffffffffffff", attempts),
        ("attempts = 1.0", "line 2: limits.attempts: expected integer, found float"),
        ("layers-at-once = 0", "line 2: limits.layers-at-once: is a whole number from 1 to 16"),
        (
            "stall-timeout = 86401",
            "line 2: limits.stall-timeout: is a whole number from 1 to 86400",
        ),
        (
            "stall_timeout = 1",
            "line 2: limits.stall_timeout: unknown key; did you mean \"stall-timeout\"?",
        ),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    assert_eq!(
        problems(b"limits.attempts = 1"),
        "line 1: limits: belongs in the measured document, imagepuller.toml in the initdata: the \
        host does not say how long the guest tries"
    );
}

#[test]
fn a_reason_of_the_node_is_alone_in_its_document() {
    let beside = "stands beside \"node-error\", which is alone in its document; remove one of the \
    two";
    for (text, expected) in [
        (
            "node-error = 7".to_owned(),
            "line 1: node-error: expected string, found integer".to_owned(),
        ),
        ("[node-error]".to_owned(), "line 1: node-error: expected string, found table".to_owned()),
        (
            "node-error = \"\"".to_owned(),
            "line 1: node-error: must not be empty: every pull is answered with it".to_owned(),
        ),
        (
            format!("node-error = \"{}\"", "é".repeat(513)),
            "line 1: node-error: has at most 1024 bytes".to_owned(),
        ),
        (
            "node_error = \"hunter2\"".to_owned(),
            "line 1: node_error: unknown key; did you mean \"node-error\"?".to_owned(),
        ),
        (
            "node-error = \"hunter2\"\nversion = 1\n[extra-env]\n[registries.a]\n[registries.b]\n"
                .to_owned(),
            format!(
                "line 2: version: {beside}\nline 3: extra-env: {beside}\nline 4: registries: \
                {beside}"
            ),
        ),
    ] {
        assert_eq!(problems(text.as_bytes()), expected, "{text}");
    }
    let measured = Document::parse_measured(b"\nnode-error = \"hunter2\"\n[registries.r]\n");
    assert_eq!(
        measured.unwrap_err().to_string(),
        "line 2: node-error: belongs in the node's document: it says why the node has no other"
    );
}

/// Only the owner can want that nobody's credentials are used.
#[test]
fn anonymous_is_the_owners_and_stands_alone() {
    let measured = |keys: &str| {
        let text = format!("[registries.r]\n{keys}anonymous = true\n");
        Document::parse_measured(text.as_bytes())
    };
    assert!(measured("plain-http = true\n").is_ok());
    for keys in [
        "username = 'a'\npassword = 'b'\n",
        "registrytoken = 'a'\n",
        "credentials-uri = 'kbs:///a/b/c'\n",
    ] {
        let error = measured(keys).unwrap_err().to_string();
        let rule = "anonymous: stands beside credentials, and wants none; remove one of the two";
        assert!(error.contains(rule), "{error}");
    }
    let pair = "client-cert = '''\n-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----\n'''\n\
        client-key = '''\n-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n'''\n";
    let error = measured(pair).unwrap_err().to_string();
    assert!(error.contains("stands beside credentials"), "{error}");
    for value in ["true", "false"] {
        let error = entry(&format!("anonymous = {value}"));
        let rule = "line 2: registries.r.anonymous: belongs in the measured document";
        assert!(error.starts_with(rule), "{error}");
    }
}
