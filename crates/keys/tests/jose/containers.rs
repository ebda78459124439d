//! Keys are read from every container that openssl writes; what is no private key is named, and no
//! key costs more than a moment.

use std::process::Command;

use keys::private_key::MAX_KEY_BYTES;
use keys::{KeyError, PrivateKey};

use crate::support::{PASSWORD, read, refusal, skip, succeeds};

/// A folder with keys that openssl makes.
struct Openssl(tempfile::TempDir);

impl Openssl {
    fn new() -> Option<Self> {
        if !succeeds(Command::new("openssl").arg("version")) {
            skip("openssl");
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    /// Runs a command line, in which words are separated by one space, and reads `out`, which it
    /// must write.
    fn run(&self, line: &str) -> Vec<u8> {
        self.try_run(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn try_run(&self, line: &str) -> Result<Vec<u8>, String> {
        let out = self.0.path().join("out");
        let _ = std::fs::remove_file(&out);
        let output = Command::new("openssl")
            .args(line.split(' '))
            .env("PW", PASSWORD)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        std::fs::read(&out).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }
}

/// One kind of key in each container, with the same public half in each.
fn check_containers(openssl: &Openssl, generate: &str, is_ec: bool) {
    let pkcs8 = openssl.run(generate);
    openssl.keep("key", &pkcs8);
    let mut containers = vec![
        pkcs8,
        openssl.run("pkcs8 -topk8 -nocrypt -in key -out out"),
        openssl.run("pkcs8 -topk8 -nocrypt -in key -outform DER -out out"),
        openssl.run("pkey -traditional -in key -out out"),
        openssl.run(if is_ec {
            "ec -in key -outform DER -out out"
        } else {
            "rsa -traditional -in key -outform DER -out out"
        }),
        openssl.run("pkcs8 -topk8 -in key -passout env:PW -out out"),
        openssl.run("pkcs8 -topk8 -in key -passout env:PW -outform DER -out out"),
        openssl.run(
            "pkcs8 -topk8 -in key -passout env:PW -v2 aes-128-cbc -v2prf hmacWithSHA512 \
        -iter 600000 -out out",
        ),
        openssl.run(
            "pkcs8 -topk8 -in key -passout env:PW -v2 aes-192-cbc -v2prf hmacWithSHA384 \
        -out out",
        ),
        openssl.run("pkcs8 -topk8 -in key -passout env:PW -scrypt -out out"),
    ];
    // Lines that end otherwise, words around it, a certificate before it.
    let text = String::from_utf8(containers[1].clone()).unwrap();
    containers.push(text.replace('\n', "\r\n").into_bytes());
    containers.push(format!("Bag Attributes\n    localKeyID: 01\n{text}\n\n").into_bytes());
    containers.push(text.trim_end().as_bytes().to_vec());
    let certificate = openssl.run("req -x509 -new -key key -subj /CN=x -out out");
    containers.push([certificate, text.into_bytes()].concat());
    if is_ec {
        containers.push(openssl.run("ec -in key -conv_form compressed -out out"));
        containers.push(openssl.run("ec -in key -no_public -out out"));
        containers.push(openssl.run("pkey -in key -ec_conv_form compressed -outform DER -out out"));
    }
    let public = openssl.run("pkey -in key -pubout -outform DER -out out");
    for (index, container) in containers.iter().enumerate() {
        let key = read(container).unwrap_or_else(|error| panic!("{generate} {index}: {error}"));
        match key.public_point() {
            Some(point) => assert!(is_ec && public.ends_with(&point), "{generate} {index}"),
            None => assert!(!is_ec, "{generate} {index}"),
        }
    }
    // The modulus is not given out, so of RSA the name must do; `jwe.rs` decrypts.
    let want = if is_ec { "P-" } else { "RSA" };
    assert!(format!("{:?}", read(&containers[0]).unwrap()).contains(want));

    for encrypted in &containers[5..10] {
        assert_eq!(PrivateKey::read(encrypted, None).unwrap_err(), KeyError::PasswordMissing);
        assert_eq!(PrivateKey::read(encrypted, Some(b"wrong")).unwrap_err(), KeyError::Password);
    }
}

#[test]
fn keys_are_read_from_every_container_that_openssl_writes() {
    let Some(openssl) = Openssl::new() else {
        return;
    };
    check_containers(
        &openssl,
        "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out out",
        false,
    );
    for curve in ["P-256", "P-384", "P-521"] {
        let generate = format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:{curve} -out out");
        check_containers(&openssl, &generate, true);
    }
    // With its parameters in a block of their own before it.
    let with_parameters = openssl.run("ecparam -genkey -name prime256v1 -out out");
    assert!(with_parameters.starts_with(b"-----BEGIN EC PARAMETERS"));
    assert!(read(&with_parameters).is_ok());
}

#[test]
fn what_is_no_usable_private_key_is_named() {
    let Some(openssl) = Openssl::new() else {
        return;
    };
    let rsa = openssl.run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out out");
    openssl.keep("key", &rsa);
    let run = |line: &str| openssl.run(line);
    let explicit = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt \
    ec_param_enc:explicit -out out";
    for (bytes, want) in [
        (run("req -x509 -new -key key -subj /CN=x -out out"), "a certificate"),
        (
            run("req -x509 -new -key key -subj /CN=x -outform DER -out out"),
            "outline of a certificate",
        ),
        (run("req -new -key key -subj /CN=x -out out"), "a request for a certificate"),
        (run("pkey -in key -pubout -out out"), "a public key"),
        (run("pkey -in key -pubout -outform DER -out out"), "a public key"),
        (run("rsa -in key -RSAPublicKey_out -out out"), "a public key"),
        (
            run("pkey -traditional -aes256 -passout env:PW -in key -out out"),
            "Proc-Type: 4,ENCRYPTED",
        ),
        (
            run("pkcs8 -topk8 -v1 PBE-SHA1-3DES -passout env:PW -in key -out out"),
            "encrypted in a way that is not supported",
        ),
        (
            run("pkcs8 -topk8 -v2 des3 -passout env:PW -in key -out out"),
            "encrypted in a way that is not supported",
        ),
        (
            run("pkcs8 -topk8 -v2 aes256 -v2prf hmacWithSHA1 -passout env:PW -in key -out out"),
            "encrypted in a way that is not supported",
        ),
        (
            run("pkcs8 -topk8 -iter 2000001 -passout env:PW -in key -out out"),
            "more than 2,000,000 iterations",
        ),
        (
            run("pkcs12 -export -nocerts -inkey key -passout env:PW -out out"),
            "does not go on like that",
        ),
        (
            run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out out"),
            "between 2048 and 8192",
        ),
        (
            run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2040 -out out"),
            "between 2048 and 8192",
        ),
        (
            run("genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out out"),
            "a kind that is not supported",
        ),
        (
            run(
                "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -pkeyopt rsa_keygen_primes:3 \
                -out out",
            ),
            "a kind that is not supported",
        ),
        (run("genpkey -algorithm ED25519 -out out"), "a kind that is not supported"),
        (run("genpkey -algorithm X25519 -outform DER -out out"), "a kind that is not supported"),
        (run("ecparam -genkey -name secp256k1 -noout -out out"), "a kind that is not supported"),
        (run("ecparam -name prime256v1 -out out"), "parameters of a curve"),
        (run(explicit), "a kind that is not supported"),
        ([rsa.clone(), rsa.clone()].concat(), "more than one private key"),
        (
            b"-----BEGIN OPENSSH PRIVATE KEY-----\n-----END OPENSSH PRIVATE KEY-----".to_vec(),
            "ssh-keygen -p -m PKCS8",
        ),
        (
            b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n-----END PGP PRIVATE KEY BLOCK-----"
                .to_vec(),
            "OpenPGP",
        ),
        (vec![0x95, 1, 2, 3], "OpenPGP"),
        (b"ssh-rsa AAAA me@here".to_vec(), "a public SSH key"),
        (
            b"-----BEGIN HUNTER-----\n-----END HUNTER-----".to_vec(),
            "a label that no private key has",
        ),
        (b"-----BEGIN PRIVATE KEY-----\nhunter2".to_vec(), "begins like PEM"),
        (b"-----BEGIN PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----".to_vec(), "begins like PEM"),
        (
            b"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----".to_vec(),
            "begins like PEM",
        ),
        (
            b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----".to_vec(),
            "begins like PKCS#8",
        ),
        (b"hunter2".to_vec(), "neither PEM nor DER nor JWK"),
        (Vec::new(), "neither PEM nor DER nor JWK"),
        (vec![b'A'; MAX_KEY_BYTES + 1], "more than 65536 bytes"),
    ] {
        let error = refusal(&bytes);
        assert!(error.contains(want), "{want}: {error}");
        assert!(!error.to_lowercase().contains("hunter"), "{error}");
    }
    // A label that says something else than what is there.
    let traditional = openssl.run("pkey -traditional -in key -out out");
    let traditional = String::from_utf8(traditional).unwrap();
    let relabelled = traditional.replace("RSA PRIVATE", "EC PRIVATE");
    assert!(refusal(relabelled.as_bytes()).contains("begins like SEC1"));
}
