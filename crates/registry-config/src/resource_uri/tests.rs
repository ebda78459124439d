use super::*;

#[test]
fn uri_has_one_form() {
    for (text, plugin, path, query, shown) in [
        ("kbs:///a/b/c", "resource", "a/b/c", None, "kbs:///a/b/c"),
        ("kbs+resource:///a/b/c", "resource", "a/b/c", None, "kbs:///a/b/c"),
        ("kbs://kbs.corp:8080/a/b/c", "resource", "a/b/c", None, "kbs:///a/b/c"),
        ("kbs://[::1]:80/a/b/c", "resource", "a/b/c", None, "kbs:///a/b/c"),
        ("kbs:///-a/_b/0.C-", "resource", "-a/_b/0.C-", None, "kbs:///-a/_b/0.C-"),
        (
            "kbs+nebula-ca:///credential?ip[ip]=10.0.0.1&name=a%20b",
            "nebula-ca",
            "credential",
            Some("ip[ip]=10.0.0.1&name=a%20b"),
            "kbs+nebula-ca:///credential?ip[ip]=10.0.0.1&name=a%20b",
        ),
        ("kbs+p://h/1/2/3/4/5/6/7/8", "p", "1/2/3/4/5/6/7/8", None, "kbs+p:///1/2/3/4/5/6/7/8"),
    ] {
        let uri = ResourceUri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((uri.plugin(), uri.path(), uri.query()), (plugin, path, query), "{text}");
        assert_eq!(uri.to_string(), shown, "{text}");
        assert_eq!(ResourceUri::parse(shown), Ok(uri), "{text}");
    }
}

#[test]
fn what_is_no_uri_is_refused_by_the_rule_it_breaks() {
    let long = format!("kbs:///a/b/{}", "c".repeat(MAX_RESOURCE_URI_BYTES));
    let long_plugin = format!("kbs+{}:///a", "p".repeat(65));
    let count = |found| InvalidResourceUri::SegmentCount { found };
    for (text, rule) in [
        ("", InvalidResourceUri::Scheme),
        ("a/b/c", InvalidResourceUri::Scheme),
        ("/a/b/c", InvalidResourceUri::Scheme),
        ("https://kbs.corp/a/b/c", InvalidResourceUri::Scheme),
        ("KBS:///a/b/c", InvalidResourceUri::Scheme),
        ("kbsx:///a/b/c", InvalidResourceUri::Scheme),
        (" kbs:///a/b/c", InvalidResourceUri::Scheme),
        ("cckbc://kbs.corp/a/b/c", InvalidResourceUri::OldScheme),
        ("CCKBC:///a/b/c", InvalidResourceUri::OldScheme),
        ("kbs:a/b/c", InvalidResourceUri::Slashes),
        ("kbs:/a/b/c", InvalidResourceUri::Slashes),
        ("kbs+:///a", InvalidResourceUri::Plugin),
        ("kbs+Nebula:///a", InvalidResourceUri::Plugin),
        ("kbs+-p:///a", InvalidResourceUri::Plugin),
        ("kbs+p_q:///a", InvalidResourceUri::Plugin),
        ("kbs+p+q:///a", InvalidResourceUri::Plugin),
        (&long_plugin, InvalidResourceUri::Plugin),
        ("kbs://robot:hunter2@kbs.corp/a/b/c", InvalidResourceUri::UserInfo),
        ("kbs:///a/b@c/d", InvalidResourceUri::UserInfo),
        ("kbs://a b/a/b/c", InvalidResourceUri::Host),
        ("kbs://kbs.corp:x/a/b/c", InvalidResourceUri::Host),
        ("kbs:///a/b/c#d", InvalidResourceUri::Fragment),
        ("kbs+p:///a?b#c", InvalidResourceUri::Fragment),
        ("kbs:///a/b/c%2fd", InvalidResourceUri::Escape),
        ("kbs://%61/a/b/c", InvalidResourceUri::Escape),
        ("kbs:///a/b/", InvalidResourceUri::EmptySegment),
        ("kbs:///a/b/c/", InvalidResourceUri::EmptySegment),
        ("kbs:///a//c", InvalidResourceUri::EmptySegment),
        ("kbs:////a/b/c", InvalidResourceUri::EmptySegment),
        ("kbs:///a/../c", InvalidResourceUri::Character),
        ("kbs:///a/.b/c", InvalidResourceUri::Character),
        ("kbs:///a/b/c d", InvalidResourceUri::Character),
        ("kbs:///a/b/c\n", InvalidResourceUri::Character),
        ("kbs:///a/b/\u{e9}", InvalidResourceUri::Character),
        ("kbs:///a/b\\c/d", InvalidResourceUri::Character),
        ("kbs://", count(0)),
        ("kbs:///", count(0)),
        ("kbs:///a", count(1)),
        ("kbs:///a/b", count(2)),
        ("kbs:///a/b/c/d", count(4)),
        ("kbs://a/b", count(1)),
        ("kbs://kbs.corp:80/a/b", count(2)),
        ("kbs:///a/b/c?d", InvalidResourceUri::QueryOfResource),
        ("kbs+resource:///a/b/c?", InvalidResourceUri::QueryOfResource),
        ("kbs+p:///", InvalidResourceUri::PluginSegmentCount),
        ("kbs+p:///1/2/3/4/5/6/7/8/9", InvalidResourceUri::PluginSegmentCount),
        ("kbs+p:///a?", InvalidResourceUri::Query),
        ("kbs+p:///a?b c", InvalidResourceUri::Query),
        ("kbs+p:///a?b%2", InvalidResourceUri::Query),
        ("kbs+p:///a?b%2g", InvalidResourceUri::Query),
        ("kbs+p:///a?\"b\"", InvalidResourceUri::Query),
        ("kbs+p:///a?\u{e9}", InvalidResourceUri::Query),
        (&long, InvalidResourceUri::TooLong),
    ] {
        assert_eq!(ResourceUri::parse(text), Err(rule), "{text:?}");
    }
}

#[test]
fn two_slashes_are_answered_with_the_uri_that_is_meant() {
    for (text, meant) in [
        ("kbs://default/key/1", "kbs:///default/key/1"),
        ("kbs://my.repo/key/1", "kbs:///my.repo/key/1"),
        ("kbs+resource://a_b/key/1", "kbs:///a_b/key/1"),
    ] {
        let error = ResourceUri::parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("\"{meant}\"")), "{error}");
    }
    let password = ResourceUri::parse("kbs://hunter 2/a/b").unwrap_err();
    assert!(!password.to_string().contains("hunter"), "{password}");
}
