//! To whom a client certificate is shown.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use url::Url;

use crate::Route;
use crate::settings::tests::{entry, host, login, settings};
use crate::trust::Trust;

fn client() -> String {
    let key = rcgen::generate_simple_self_signed(vec!["robot".to_owned()]).unwrap();
    format!(
        "client-cert = \'\'\'\n{}\'\'\'\nclient-key = \'\'\'\n{}\'\'\'\n",
        key.cert.pem(),
        key.signing_key.serialize_pem()
    )
}

/// Whether the first source of an image of `r.corp` shows a certificate at a URL.
fn shows(measured: &str, configuration: &str, url: &str) -> bool {
    let plan = settings(measured, configuration).plan(&host("r.corp"), "team/app").unwrap();
    let Route { settings, sources } = plan.fill(None, None).unwrap();
    Trust::of(&Url::parse(url).unwrap(), &sources[0], &settings).client.is_some()
}

#[test]
fn a_client_certificate_is_shown_to_its_own_host_only() {
    let own = entry("r.corp", &client());
    for (document, url, expected) in [
        (own.clone(), "https://r.corp/v2/", true),
        // Whom the registry sends the puller to.
        (own.clone(), "https://token.corp/", false),
        // A name without a port holds for every port.
        (own.clone(), "https://r.corp:5000/", true),
        (entry("r.corp:443", &client()), "https://r.corp:5000/", false),
        (entry(".corp", &client()), "https://r.corp/v2/", true),
        (entry(".corp", &client()), "https://token.corp/", false),
        // With an entry of its own.
        (entry("r.corp", "") + &entry("token.corp", &client()), "https://token.corp/", true),
        // Nobody vouches for who answers.
        (
            entry("r.corp", &format!("{}insecure-skip-verify = true\n", client())),
            "https://r.corp/v2/",
            false,
        ),
        // A mirror is not lent it, an entry for repositories does not take it away.
        (
            entry("r.corp", &format!("{}mirror = \"https://m.corp\"\n", client())),
            "https://m.corp/v2/",
            false,
        ),
        (own.clone() + &entry("r.corp/team", &login("team")), "https://r.corp/v2/", true),
    ] {
        assert_eq!(shows("", &document, url), expected, "{url} {document}");
    }
    // The host's goes the owner's way, unless the owner wants none.
    assert!(shows(&entry("r.corp", ""), &own, "https://r.corp/v2/"));
    let anonymous = entry("r.corp", "anonymous = true\n");
    assert!(!shows(&anonymous, &own, "https://r.corp/v2/"));
    assert!(shows(&own, "", "https://r.corp/v2/"));
    let reference = "credentials-uri = \"kbs:///a/b/c\"\n";
    let confidential = settings("", &entry("r.corp", &format!("{}{reference}", client())));
    let plan = confidential.plan(&host("r.corp"), "team/app").unwrap();
    assert!(plan.authority().registry.client.is_none());
}
