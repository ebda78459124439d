use super::*;

#[test]
fn the_question_has_the_bytes_of_the_kubelet() {
    assert_eq!(
        request(Version::V1, "test.registry.io/foobar"),
        b"{\"kind\":\"CredentialProviderRequest\",\
          \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
          \"image\":\"test.registry.io/foobar\"}\n"
    );
    for version in Version::ALL {
        let parsed = Request::parse(&request(version, "a.b/c")).unwrap();
        assert_eq!((parsed.version, parsed.image.as_str()), (version, "a.b/c"));
    }
}

#[test]
fn a_question_may_carry_a_service_account() {
    let text = br#"{"kind":"CredentialProviderRequest",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1",
        "image":"a/b","serviceAccountToken":"hunter2","serviceAccountAnnotations":{"x/y":"z"}}"#;
    assert_eq!(Request::parse(text).unwrap().image, "a/b");
    for (text, rule) in [
        (&b"{}"[..], "is not the JSON"),
        (br#"{"kind":"Pod","apiVersion":"v1","image":"a"}"#, "kind is not"),
        (
            br#"{"kind":"CredentialProviderRequest","apiVersion":"v1","image":"a"}"#,
            "apiVersion is not",
        ),
        (
            br#"{"kind":"CredentialProviderRequest","image":"a","x":"hunter2",
            "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}"#,
            "line 1",
        ),
    ] {
        let error = Request::parse(text).unwrap_err().to_string();
        assert!(error.contains(rule) && !error.contains("hunter2"), "{error}");
    }
}

/// `{"kind":...,"apiVersion":...,` and `rest`.
fn answer(rest: &str) -> String {
    format!(
        "{{\"kind\":\"CredentialProviderResponse\",\
        \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",{rest}}}"
    )
}

#[test]
fn answers_of_every_legal_form() {
    let parse = |rest: &str| Response::parse(answer(rest).as_bytes(), Version::V1).unwrap();
    let full = parse(
        r#""cacheKeyType":"Registry","cacheDuration":"6h0m0s","auth":{
        "reg.corp":{"username":"u","password":"p"},"*.x":{"username":"","password":""}}"#,
    );
    assert_eq!(full.cache_key_type, CacheKeyType::Registry);
    assert_eq!(full.cache_duration, Some(Duration::from_secs(21600)));
    assert_eq!(*full.auth["reg.corp"].password, "p");
    assert!(full.auth["*.x"].username.is_empty());
    assert_eq!(format!("{full:?}").matches('p').count(), 2, "only in names of keys: {full:?}");
    for (rest, duration) in [
        (r#""cacheKeyType":"Global""#, None),
        (r#""cacheKeyType":"Image","cacheDuration":null,"auth":null"#, None),
        (r#""cacheKeyType":"Image","cacheDuration":"0s""#, Some(Duration::ZERO)),
        (r#""cacheKeyType":"Image","cacheDuration":"-5m""#, Some(Duration::ZERO)),
    ] {
        let found = parse(rest);
        assert_eq!((found.cache_duration, found.auth.len()), (duration, 0), "{rest}");
    }
    let halves = parse(r#""cacheKeyType":"Global","auth":{"a":{},"b":null,"c":{"password":"p"}}"#);
    assert_eq!(halves.auth.len(), 3);
    assert!(halves.auth["b"].password.is_empty());
}

#[test]
fn answers_that_the_kubelet_refuses() {
    let long = " ".repeat(MAX_MESSAGE_BYTES);
    let many: Vec<String> = (0..=MAX_AUTH_KEYS).map(|key| format!("\"k{key}\":{{}}")).collect();
    let many = format!("\"cacheKeyType\":\"Global\",\"auth\":{{{}}}", many.join(","));
    for (text, rule) in [
        (String::new(), "not the JSON"),
        ("hunter2".into(), "not the JSON"),
        ("null".into(), "not the JSON"),
        ("[]".into(), "not the JSON"),
        ("{}".into(), "kind is not"),
        (r#"{"kind":"hunter2"}"#.into(), "kind is not"),
        (
            answer("\"cacheKeyType\":\"Global\"").replace("/v1", "/v1beta1"),
            "apiVersion is not credentialprovider.kubelet.k8s.io/v1",
        ),
        (answer("\"auth\":{}"), "cacheKeyType"),
        (answer("\"cacheKeyType\":\"hunter2\""), "cacheKeyType"),
        (answer("\"cacheKeyType\":\"registry\""), "cacheKeyType"),
        (answer("\"cacheKeyType\":\"Global\",\"cacheDuration\":\"hunter2\""), "cacheDuration"),
        (answer("\"cacheKeyType\":\"Global\",\"cacheDuration\":300"), "not the JSON"),
        (answer("\"cacheKeyType\":\"Global\",\"hunter2\":1"), "not the JSON"),
        (answer("\"cacheKeyType\":\"Global\",\"CacheDuration\":\"1s\""), "not the JSON"),
        (answer("\"cacheKeyType\":\"Global\",\"cacheKeyType\":\"Global\""), "not the JSON"),
        (
            answer("\"cacheKeyType\":\"Global\",\"auth\":{\"hunter2\":{},\"hunter2\":{}}"),
            "not the JSON",
        ),
        (
            answer("\"cacheKeyType\":\"Global\",\"auth\":{\"a\":{\"email\":\"hunter2\"}}"),
            "not the JSON",
        ),
        (answer("\"cacheKeyType\":\"Global\",\"auth\":{\"a\":\"hunter2\"}"), "not the JSON"),
        (answer(&many), "more than 256 keys"),
        (answer("\"cacheKeyType\":\"Global\"") + "hunter2", "not the JSON"),
        (answer("\"cacheKeyType\":\"Global\"") + &long, "more than 262144 bytes"),
    ] {
        let error = Response::parse(text.as_bytes(), Version::V1).unwrap_err().to_string();
        assert!(error.contains(rule), "{error} for {}", &text[..text.len().min(200)]);
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn an_answer_has_the_bytes_that_go_would_write() {
    let response = Response {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(Duration::ZERO),
        auth: [(
            "reg.corp".to_owned(),
            Pair {
                username: Zeroizing::new("robot".into()),
                password: "pass\"word".to_owned().into(),
            },
        )]
        .into(),
    };
    let text = response.to_bytes(Version::V1Beta1);
    assert_eq!(
        str::from_utf8(&text).unwrap(),
        "{\"kind\":\"CredentialProviderResponse\",\
          \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1beta1\",\
          \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\
          \"auth\":{\"reg.corp\":{\"username\":\"robot\",\"password\":\"pass\\\"word\"}}}\n"
    );
    let again = Response::parse(&text, Version::V1Beta1).unwrap();
    assert_eq!(*again.auth["reg.corp"].password, "pass\"word");
}

/// A registry takes a token as the user name, and a log line with the pair showed it.
#[test]
fn a_pair_shows_neither_of_its_parts() {
    let text = answer(
        "\"cacheKeyType\":\"Registry\",\
        \"auth\":{\"reg.corp\":{\"username\":\"hunter2-user\",\"password\":\"hunter2-password\"}}",
    );
    let response = Response::parse(text.as_bytes(), Version::V1).unwrap();
    let shown = format!("{:?}", response.auth);
    assert!(shown.contains("reg.corp"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
