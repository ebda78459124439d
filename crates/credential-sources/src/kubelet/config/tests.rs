use super::*;

const EKS: &str = "\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: ecr-credential-provider
    matchImages:
      - \"*.dkr.ecr.*.amazonaws.com\"
      - public.ecr.aws
    defaultCacheDuration: 12h0m0s
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args:
      - get-credentials
    env:
      - name: AWS_PROFILE
        value: hunter2
";

fn read(texts: &[&str]) -> Result<Providers, String> {
    let mut providers = Providers::default();
    for text in texts {
        providers.add(text.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(providers)
}

#[test]
fn yaml_and_json_of_every_version_say_the_same() {
    let json = r#"{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig",
        "providers":[{"name":"ecr-credential-provider",
        "matchImages":["*.dkr.ecr.*.amazonaws.com","public.ecr.aws"],
        "defaultCacheDuration":"12h0m0s","apiVersion":"credentialprovider.kubelet.k8s.io/v1",
        "args":["get-credentials"],"env":[{"name":"AWS_PROFILE","value":"hunter2"}]}]}"#;
    for text in [
        EKS.to_owned(),
        json.to_owned(),
        format!("# a comment\n---\n{EKS}"),
        EKS.replace("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1"),
        EKS.replace("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1alpha1"),
    ] {
        let providers = read(&[&text]).unwrap();
        let [provider] = providers.list() else { panic!("{providers:?}") };
        assert_eq!(provider.name, "ecr-credential-provider");
        assert_eq!(provider.patterns.len(), 2);
        assert_eq!(provider.default_cache, Duration::from_secs(43200));
        assert_eq!(provider.version, Version::V1);
        assert_eq!(provider.args, ["get-credentials"]);
        assert_eq!(provider.env[0].0, "AWS_PROFILE");
        assert_eq!(provider.env[0].1.expose(), "hunter2");
        assert!(!provider.wants_token);
        assert!(!format!("{providers:?}").contains("hunter2"));
    }
}

#[test]
fn several_texts_are_one_list_in_their_order() {
    let other = EKS.replace("ecr-credential-provider", "acr");
    let providers = read(&[&other, EKS]).unwrap();
    let names: Vec<_> = providers.list().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["acr", "ecr-credential-provider"]);
    let error = read(&[EKS, EKS]).unwrap_err();
    assert_eq!(error, "provider 1 has the name of another one");
}

#[test]
fn a_token_provider_is_known_as_one() {
    let token = "    tokenAttributes:\n      serviceAccountTokenAudience: aud\n      cacheType: \
    Token\n      requireServiceAccount: true\n";
    let text = format!("{EKS}{token}");
    assert!(read(&[&text]).unwrap().list()[0].wants_token);
    let needs = "Account: false\n      requiredServiceAccountAnnotationKeys: [a/b]\n";
    let twice = "Account: true\n      requiredServiceAccountAnnotationKeys: [a/b]\n      \
    optionalServiceAccountAnnotationKeys: [a/b]\n";
    for (from, to, rule) in [
        ("aud", "\"\"", "serviceAccountTokenAudience"),
        ("cacheType: Token", "cacheType: token", "cacheType"),
        ("      requireServiceAccount: true\n", "", "requireServiceAccount"),
        ("k8s.io/v1\nkind", "k8s.io/v1beta1\nkind", "not known before v1"),
        ("kubelet.k8s.io/v1\n", "kubelet.k8s.io/v1beta1\n", "not known before v1"),
        ("Account: true\n", needs, "needs requireServiceAccount"),
        ("Account: true\n", twice, "stands twice"),
    ] {
        let error = read(&[&text.replace(from, to)]).unwrap_err();
        assert!(error.contains(rule), "{error}");
    }
}

#[test]
fn what_the_kubelet_refuses_is_refused_without_a_value() {
    let many = (0..=MAX_PROVIDERS).map(|number| {
        let provider = EKS.split_once("providers:\n").unwrap().1;
        provider.replace("ecr-credential-provider", &format!("p{number}"))
    });
    let many = format!(
        "{}providers:\n{}",
        EKS.split_once("providers").unwrap().0,
        many.collect::<String>()
    );
    let bomb = {
        let mut text = String::from("a0: &a0 [x]\n");
        for level in 1..30 {
            let below = level - 1;
            text += &format!("a{level}: &a{level} [*a{below},*a{below},*a{below},*a{below}]\n");
        }
        text
    };
    let deep = "[".repeat(10_000);
    let (head, _) = EKS.split_once("providers").unwrap();
    let changed = [
        ("kind: Cred", "kind: hunter2Cred", "is not a CredentialProviderConfig"),
        ("config.k8s.io/v1", "config.k8s.io/v2", "is not a CredentialProviderConfig"),
        ("apiVersion: kubelet", "apiversion: kubelet", "the key apiversion is not known"),
        ("    env:", "    enviroment:", "line 12, column 5: the key enviroment"),
        ("        value:", "        vaule:", "the key vaule is not known"),
        ("ecr-cred", "../ecr-cred", "name of provider 1"),
        ("ecr-cred", "ecr cred", "name of provider 1"),
        ("ecr-credential-provider", "\"..\"", "name of provider 1"),
        ("ecr-credential-provider", "\"\"", "name of provider 1"),
        ("12h0m0s", "-1s", "defaultCacheDuration is negative"),
        ("12h0m0s", "hunter2", "defaultCacheDuration is not a time"),
        ("12h0m0s", "12", "not what"),
        ("    defaultCacheDuration: 12h0m0s\n", "", "defaultCacheDuration is missing"),
        ("public.ecr.aws", "\"hunter2 hunter2\"", "an entry of matchImages"),
        ("kubelet.k8s.io/v1\n", "kubelet.k8s.io/v2\n", "apiVersion is not one of"),
        ("value: hunter2", "value: [hunter2]", "not what"),
        ("- get-credentials", "- 8080", "not what"),
    ];
    let changed = changed.map(|(from, to, rule)| (EKS.replace(from, to), rule));
    let whole = [
        (String::new(), "not what"),
        ("hunter2".into(), "not what"),
        ("{\"kind\":\"hunter2\"".into(), "not what"),
        (format!("{EKS}providers: []\n"), "not what"),
        (format!("{EKS}---\n{EKS}"), "not what"),
        (head.to_owned(), "names no provider"),
        (format!("{head}providers: []\n"), "names no provider"),
        (many, "more than 64 providers"),
        (bomb, "not "),
        (deep, "not what"),
        (" ".repeat(MAX_CONFIG_BYTES + 1), "more than 1048576 bytes"),
    ];
    for (text, rule) in changed.into_iter().chain(whole) {
        let error = read(&[&text]).unwrap_err();
        assert!(error.contains(rule), "{error} for {}", &text[..text.len().min(300)]);
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = Providers::default().add(b"\xff").unwrap_err();
    assert!(error.to_string().contains("not UTF-8"));
}

/// The kubelet takes a variable without a value, and so does Go; the whole configuration was
/// unusable here.
#[test]
fn variables_without_a_value_are_empty() {
    for (variable, expected) in [
        ("name: A\n        value: null", &[("A", "")][..]),
        ("name: A\n        value: ~", &[("A", "")]),
        ("name: A", &[("A", "")]),
        ("value: x", &[]),
        ("name: null\n        value: x", &[]),
    ] {
        let text = EKS.replace("name: AWS_PROFILE\n        value: hunter2", variable);
        assert_ne!(text, EKS);
        let providers = read(&[&text]).unwrap();
        let env = &providers.list()[0].env;
        let found: Vec<_> =
            env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(found, expected, "{variable}");
    }
}

/// As `IsQualifiedName` of Kubernetes judges them.
#[test]
fn annotation_keys_are_qualified_names() {
    let long = "x".repeat(64);
    for (key, is_good) in [
        ("example.com/role", true),
        ("Example.com/Role_1.a-b", true),
        ("role", true),
        ("a/b/c", false),
        ("/role", false),
        ("example.com/", false),
        ("", false),
        ("-role", false),
        ("role-", false),
        ("ro le", false),
        ("exa_mple.com/role", false),
        ("example..com/role", false),
        ("-example.com/role", false),
        (&long, false),
        (&long[1..], true),
    ] {
        let text = format!(
            "{EKS}    tokenAttributes:\n      serviceAccountTokenAudience: aud\n      cacheType: \
             Token\n      requireServiceAccount: true\n      \
             optionalServiceAccountAnnotationKeys: [\"{key}\"]\n"
        );
        let read = read(&[&text]);
        assert_eq!(read.is_ok(), is_good, "{key}: {read:?}");
    }
}
