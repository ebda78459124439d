//! Several accounts of one registry, and registries that take none.

use super::*;

/// The user names that the entry `name` tries, in their order.
fn accounts(merged: &Merged, name: &str) -> Vec<String> {
    let name = RegistryName::parse(name).unwrap();
    let mut entries = merged.document.registries.iter();
    let (_, entry) = entries.find(|(known, _)| **known == name).unwrap();
    let users = [&entry.credentials].into_iter().chain(&entry.also);
    let user = |credentials: &Credentials| match credentials {
        Credentials::Basic { username, password } => {
            assert_eq!(password.expose(), format!("hunter2\"{username}\\"));
            username.clone()
        }
        other => panic!("{other:?}"),
    };
    users.map(user).collect()
}

/// Only the first account was taken. The kubelet tries them all, and a pull failed in the guest
/// while a password was being changed.
#[test]
fn every_account_is_kept_in_its_order_in_every_shape_of_document() {
    let offers = [
        offer("reg.corp", "new", "A"),
        offer("ghcr.io", "g", "A"),
        offer("Reg.corp.", "old", "B"),
        offer("reg.corp", "new", "C"),
        offer("ghcr.io", "h", "C"),
        offer("reg.corp", "oldest", "C"),
    ];
    for document in SHAPES {
        let merged = merged(document, &offers);
        assert_eq!(accounts(&merged, "reg.corp"), ["new", "old", "oldest"], "{}", text(&merged));
        assert_eq!(accounts(&merged, "ghcr.io"), ["g", "h"]);
        let origin = &merged.origins[0];
        let from: Vec<_> = origin.accounts.iter().map(|one| one.source.as_str()).collect();
        assert_eq!(from, ["A", "B", "C"]);
        assert_eq!(origin.losers.len(), 1);
        assert!(!origin.losers[0].lost && origin.losers[0].why.contains("says the same"));
    }
    let sections = merged("", &offers[..3]);
    assert!(
        text(&sections).contains("\n[[registries.\"reg.corp.\".also]]\nusername = \"old\"\n"),
        "{}",
        text(&sections)
    );
}

#[test]
fn an_entry_takes_no_more_than_its_accounts() {
    let users: Vec<String> = (0..12).map(|number| format!("u{number}")).collect();
    let offers: Vec<_> = users.iter().map(|user| offer("reg.corp", user, user)).collect();
    let merged = merged("", &offers);
    assert_eq!(accounts(&merged, "reg.corp"), users[..9]);
    let losers = &merged.origins[0].losers;
    assert_eq!(losers.len(), 3);
    assert!(losers.iter().all(|loser| loser.lost), "{losers:?}");
    assert!(losers[0].why.contains("at most 8 further accounts"));

    // Where the document is nearly full, the first ones are in it.
    let merged = self::merged(&filled(250), &offers);
    let kept = accounts(&merged, "reg.corp");
    assert!((1..9).contains(&kept.len()), "{kept:?}");
    assert_eq!(merged.origins[0].accounts.len(), kept.len());
    assert_eq!(merged.origins[0].losers.len(), 12 - kept.len());
}

/// The kubelet tries the pair for the whole registry after the one for the repositories. Here the
/// entry for the repositories hides that of the registry.
#[test]
fn what_was_offered_for_wider_names_comes_behind() {
    let offers = [
        offer("reg.corp", "host", "A"),
        offer("reg.corp/team", "team", "A"),
        offer("reg.corp/team/app", "app", "A"),
        offer("reg.corp/team", "team2", "B"),
        offer("reg.corp/teams", "teams", "A"),
        offer("other.corp:5000", "port", "A"),
    ];
    let merged = merged("", &offers);
    for (name, expected) in [
        ("reg.corp", &["host"][..]),
        ("reg.corp/team", &["team", "team2", "host"]),
        ("reg.corp/team/app", &["app", "team", "team2", "host"]),
        ("reg.corp/teams", &["teams", "host"]),
        ("other.corp:5000", &["port"]),
    ] {
        assert_eq!(accounts(&merged, name), expected, "{name}");
    }
    let app = &merged.origins[2];
    let also: Vec<_> = app.accounts[1..]
        .iter()
        .map(|one| (one.source.as_str(), one.offered_for.as_deref()))
        .collect();
    assert_eq!(
        also,
        [("A", Some("reg.corp/team")), ("B", Some("reg.corp/team")), ("A", Some("reg.corp."))]
    );
}

/// The user names that a pull of `image` tries.
fn tried(merged: &Merged, image: &str) -> Vec<String> {
    let (host, repository) = image.split_once('/').unwrap();
    let host = RegistryHost::parse(host).unwrap();
    let registries = &merged.document.registries;
    let own = registries.repository_entries(&host, repository).next();
    match (own, registries.matches(&host).next()) {
        (Some((name, _)), _) | (None, Some((name, _))) => accounts(merged, &name.to_string()),
        (None, None) => Vec::new(),
    }
}

/// Port 443 of a host and port 5000 are two registries. A password for the one came behind an
/// account for some repositories on every port, and went to the other after a refusal.
#[test]
fn no_password_for_one_port_goes_to_another() {
    let (team, port) = ("reg.corp/team", "reg.corp:5000");
    type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let rows: [Row<'_>; 7] = [
        // The document, what is offered for what, who is tried on port 443 and who on 5000.
        ("", &["reg.corp", team], &[team, "reg.corp"], &[team, "reg.corp"]),
        ("", &["reg.corp:443", team], &[team, "reg.corp:443"], &[]),
        ("", &[team, "reg.corp:443"], &[team, "reg.corp:443"], &[]),
        ("[registries.\"reg.corp:443\"]\n", &["reg.corp", team], &[team, "reg.corp"], &[]),
        ("", &["reg.corp", team, port], &[team, "reg.corp"], &[port]),
        ("", &[port, team], &[team], &[port]),
        (
            "[registries.\"reg.corp:5000/other\"]\n",
            &[team, "reg.corp:5000/team", port],
            &[team],
            &["reg.corp:5000/team", port],
        ),
    ];
    for (document, names, on_https, on_5000) in rows {
        // A user's name has no colon.
        let user = |name: &&str| name.replace(':', "-");
        let offers = names.iter().map(|name| offer(name, &user(name), "A"));
        let offers: Vec<_> = offers.collect();
        let users = |names: &[&str]| names.iter().map(user).collect::<Vec<_>>();
        let merged = merged(document, &offers);
        let shown = text(&merged);
        for (image, expected) in
            [("reg.corp/team/app", on_https), ("reg.corp:5000/team/app", on_5000)]
        {
            assert_eq!(tried(&merged, image), users(expected), "{image}: {shown}");
        }
    }
    // An entry of the document for the port keeps what it says there.
    let document = "[registries.\"reg.corp:5000\"]\nplain-http = true\n";
    let merged = merged(document, &[offer("reg.corp", "host", "A"), offer(team, "team", "A")]);
    assert_eq!(tried(&merged, "reg.corp/team/app"), ["team", "host"]);
    let on_5000 = RegistryHost::parse(port).unwrap();
    let registries = &merged.document.registries;
    assert!(registries.repository_entries(&on_5000, "team/app").next().is_none());
    let (_, entry) = registries.literal_entry_for(&on_5000).unwrap();
    assert!(entry.credentials.is_anonymous() && entry.also.is_empty());
}

/// An entry whose mirrors are a list of tables could not be inherited, and every offer was lost.
#[test]
fn lists_of_tables_are_inherited_too() {
    let document = "[registries.\".corp\"]\n[[registries.\".corp\".mirrors]]\nurl = \
        \"https://m.example\"\nprefix = \"team\"\n\n[registries.\"m.example\"]\n";
    let merged = merged(document, &[offer("reg.corp", "a", "A")]);
    let host = RegistryHost::parse("reg.corp").unwrap();
    let (_, entry) = merged.document.registries.literal_entry_for(&host).unwrap();
    assert_eq!(entry.mirrors.len(), 1);
    assert_eq!(accounts(&merged, "reg.corp"), ["a"]);
}

/// Plugins were started, and waited for, although nothing that they could say would count.
#[test]
fn what_takes_nothing_is_known_before_anybody_is_asked() {
    let own = "username = \"own\"\npassword = \"p\"\n";
    for (document, host, expected) in [
        (format!("[registries.\"reg.corp\"]\n{own}"), "reg.corp", true),
        (format!("[registries.\"reg.corp\"]\n{own}"), "reg.corp:5000", true),
        (format!("[registries.\"reg.corp:443\"]\n{own}"), "reg.corp", false),
        (format!("[registries.\"reg.corp:5000\"]\n{own}"), "reg.corp", false),
        (format!("[registries.\".\"]\n{own}"), "reg.corp", true),
        ("[registries.\".\"]\n".to_owned(), "reg.corp", false),
        (
            format!("[registries.\"reg.corp\"]\n{own}[registries.\"reg.corp/team\"]\n"),
            "reg.corp",
            false,
        ),
        (format!("[registries.\"reg.corp/team\"]\n{own}"), "reg.corp", false),
    ] {
        let parsed = Document::parse(document.as_bytes()).unwrap().document;
        let registry = RegistryHost::parse(host).unwrap();
        assert_eq!(is_taken(&parsed.registries, &registry, None), expected, "{document} {host}");
        for name in [host.to_owned(), format!("{host}/team/app"), format!("{host}/x")] {
            let merged = merged(&document, &[offer(&name, "a", "A")]);
            assert!(!expected || text(&merged) == document, "{document} {name}");
        }
    }
}
