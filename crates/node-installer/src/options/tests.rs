use super::*;

const ONE: &str = "host = \"/host\"\nprefix = \"/opt/kata-configdev\"\nwrapper = \"/w\"\n\
    [sets.default]\nsecret = \"/secrets/default\"\nhandlers = \
    [\"/opt/kata/a\", \"/opt/kata/b\"]\n";

fn refusal(text: &str) -> String {
    Options::parse(text.as_bytes(), Rules::NONE).unwrap_err().to_string()
}

#[test]
fn defaults_are_those_of_the_wrapper() {
    let options = Options::parse(ONE.as_bytes(), Rules::NONE).unwrap();
    let set = &options.sets["default"];
    assert_eq!(set.key, "imagepuller.toml");
    assert_eq!(set.settings_file.as_str(), "/etc/kata-configdev/config.toml");
    assert_eq!(options.listen, None);
    assert!(!options.sandboxes && !options.providers && !options.is_on_host_network());
}

#[test]
fn contradictions_and_mistakes_are_refused() {
    let second = |rest: &str| format!("{ONE}[sets.second]\nsecret = \"/s\"\n{rest}");
    let set_key = |line: &str| ONE.replace("[sets.default]", &format!("[sets.default]\n{line}"));
    let cases = [
        (format!("metrics-address = \"::1\"\n{ONE}"), "metrics-address: without metrics-port"),
        (format!("providers = true\n{ONE}"), "providers: without sandboxes"),
        (format!("program = \"x\"\n{ONE}"), "program: not an absolute path"),
        (
            ONE.replace("[sets.default]", "[set.default]"),
            "at line 4: unknown field `set`; did you mean `sets`?",
        ),
        ("host = \"/h\"\nprefix = \"/p\"\nwrapper = \"/w\"\n".into(), "missing field `sets`"),
        (ONE.replace("\"/host\"", "\"host\""), "host: not an absolute"),
        (ONE.replace("/opt/kata-configdev", "/opt/../x"), "at line 2: has \".\""),
        (
            ONE.replace("/opt/kata/b", "/opt/kata/a/"),
            "/opt/kata/a/config.d/zz-kata-configdev.toml would be written twice",
        ),
        (second("handlers = []\n"), "/etc/kata-configdev/config.toml would be written twice"),
        (
            second(
                "handlers = [\"/opt/kata/b\"]\nsettings-file \
                = \"/opt/kata-configdev/second/etc/kata-configdev/config.toml\"\n",
            ),
            "/opt/kata/b/config.d/zz-kata-configdev.toml would be",
        ),
        (
            second("handlers = []\nsettings-file = \"/etc/kata-configdev-b/config.toml\"\n"),
            "sets.\"second\".settings-file: the wrapper would not look there; it must be \
             /opt/kata-configdev/second/etc/kata-configdev/config.toml, or for one set \
             /etc/kata-configdev/config.toml",
        ),
        (
            second(
                "handlers = []\nsettings-file \
                = \"/opt/kata-configdev/default/etc/kata-configdev/config.toml\"\n",
            ),
            "must be /opt/kata-configdev/second/etc/",
        ),
        (set_key("key = \"../x\""), "key: not the key"),
        (
            set_key("secret-names = { \"/secrets/other\" = \"kata/registries\" }"),
            "secret-names: a path that no secret of the set has",
        ),
        (
            set_key("secret-names = { \"/secrets/default\" = \"registries\" }"),
            "secret-names: not of the form NAMESPACE/NAME",
        ),
        (set_key("docker-configs = [\"/a\", \"b\"]"), "docker-configs: not an absolute path"),
        (set_key(&format!("docker-configs = {:?}", ["/a"; 17])), "docker-configs: more than 16"),
        (set_key("decryption-keys = [\"/a\", \"b\"]"), "decryption-keys: not an absolute path"),
        (set_key(&format!("decryption-keys = {:?}", ["/a"; 17])), "decryption-keys: more than 16"),
        (set_key("allow-widening = 1"), "at line 5: invalid type"),
        (set_key("key = \"..data\""), "key: not the key"),
        (ONE.replace("sets.default", "sets.\"a/b\""), "the name is not of letters"),
        (
            format!("{ONE}[sets.default.settings]\ndocument = \"/x\"\n"),
            "\"document\" is the installer's",
        ),
        (ONE.replace("\"/secrets", "\"secrets"), "secret: not an absolute path"),
    ];
    for (text, rule) in cases {
        assert!(refusal(&text).contains(rule), "{}", refusal(&text));
    }
}

#[test]
fn settings_are_shown_to_whoever_understands_them() {
    let text = format!("{ONE}[sets.default.settings]\nqemu = \"/opt/kata/bin/qemu\"\n");
    let said = |check_text| {
        let rules = Rules { check_text, ..Rules::NONE };
        Options::parse(text.as_bytes(), rules)
    };
    said(|settings| {
        assert!(settings.contains("qemu = \"/opt/kata/bin/qemu\"\n"), "{settings}");
        assert!(settings.contains(
            "document = \"/opt/kata-configdev/default/etc/host-config/imagepuller.toml\"\n"
        ));
        Ok(())
    })
    .unwrap();
    let error = said(|_| Err("unknown key".into())).unwrap_err();
    assert!(error.to_string().ends_with("sets.\"default\".settings: unknown key"), "{error}");
}
