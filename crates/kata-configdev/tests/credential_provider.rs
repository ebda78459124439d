//! `kata-configdev credential-provider`, started as a kubelet would: the page
//! `cases/credential_provider.md` has what it answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command::Folder;

/// Our own runner, with the kubelet's rules, in front of our own plugin.
#[test]
fn the_projects_two_halves_understand_each_other() {
    use credential_sources::kubelet::answer::offers;
    use credential_sources::kubelet::config::Providers;
    use credential_sources::kubelet::probe;
    use credential_sources::kubelet::run::{Question, ask};
    use registry_config::{Credentials, RegistryHost};

    let folder = Folder::new();
    let document =
        folder.file("config.toml", include_str!("cases/credential_provider/config.toml"));
    let program = folder.path("kata-configdev");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kata-configdev"), program).unwrap();
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- \
            name: kata-configdev\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/{version}\n  matchImages: [reg.corp, \
             docker.io]\n  \
             defaultCacheDuration: 0s\n  args: [credential-provider, --config, {document}]\n"
        );
        let mut providers = Providers::default();
        providers.add(config.as_bytes()).unwrap();
        let directory = folder.path(".");
        let hosts = ["reg.corp", "docker.io"].map(|host| RegistryHost::parse(host).unwrap());
        let questions = hosts
            .each_ref()
            .map(|host| Question::new(&directory, &providers.list()[0], probe(host)));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(50);
        let answers = ask(&questions, deadline);
        for ((host, answer), user) in hosts.iter().zip(&answers).zip(["robot", "hub"]) {
            let answer = answer.as_ref().unwrap();
            let (offers, findings) = offers(host, None, &[("kata-configdev", answer)]);
            assert!(findings.is_empty());
            let Credentials::Basic { username, password } = &offers[0].offered else {
                panic!("{offers:?}")
            };
            assert_eq!((username.as_str(), password.expose()), (user, "hunter2-document"));
        }
    }
}
