//! The servers against clients that are none of ours: `curl` for HTTP, `python3-jwcrypto` for the
//! cryptography.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use test_http::{Server, Tunnel};

use crate::{
    AttestationAgent, DataHub, EventLog, Kbs, Policy, Proofs, Vault, recorded_bytes, recorded_call,
};
use test_http::pki::Authority;
use vm_harness::Scratch;

const PATH: &str = "default/key/image";
const SECRET: &[u8] = b"\x00the secret\xff";

fn vault() -> Vault {
    Vault::new().with(PATH, SECRET)
}

/// A whole guest in Python: it reads commands from its first argument and prints what it got, in
/// base64.
const GUEST: &str = r#"
import base64, hashlib, json, subprocess, sys
from jwcrypto import jwk, jwe
def curl(*more):
    out = subprocess.run(["curl", "--silent", "--show-error", "--include", "--noproxy", "*", *more], capture_output=True, text=True)
    if out.returncode: sys.exit(out.stderr)
    head, body = out.stdout.split("\n\n" if "\r\n" not in out.stdout else "\r\n\r\n", 1)
    return int(head.split()[1]), head, body
def post(url, value, *more):
    return curl("--header", "Content-Type: application/json", "--data-binary", json.dumps(value), *more, url)
def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
job = json.loads(sys.argv[1])
base, tls = job.get("base"), job.get("tls", [])
if job["do"] == "fetch":
    key = jwk.JWK.generate(kty="EC", crv="P-256")
    public = json.loads(key.export_public()); public = {n: public[n] for n in ("kty", "crv", "x", "y")}; public["alg"] = "ECDH-ES+A256KW"
    status, head, body = post(base + "/kbs/v0/auth", {"version": job.get("version", "0.4.0"), "tee": "sample", "extra-params": {}}, *tls)
    if status != 200: print(status, json.loads(body)["type"].rsplit("/", 1)[1]); sys.exit()
    cookie = [line.split(": ", 1)[1].split(";")[0] for line in head.splitlines() if line.lower().startswith("set-cookie")][0]
    challenge = json.loads(body)
    name = (challenge["extra-params"] or {}).get("selected-hash-algorithm", "sha384")
    bound = {"tee-pubkey": public, "nonce": challenge["nonce"], "additional-evidence": ""}
    if job.get("omit"): del bound[job["omit"]]
    digest = hashlib.new(name, canonical(bound)).digest()
    quote = {"svn": "1", "report_data": base64.b64encode(digest).decode()}
    status, _, body = post(base + "/kbs/v0/attest", {"init-data": None, "runtime-data": {"nonce": challenge["nonce"], "tee-pubkey": public},
        "tee-evidence": {"primary_evidence": quote, "additional_evidence": ""}}, "--cookie", cookie, *tls)
    if status != 200: print(status, json.loads(body)["type"].rsplit("/", 1)[1]); sys.exit()
    token = json.loads(body)["token"]
    ways = {"cookie": ["--cookie", cookie], "token": ["--header", "Authorization: Bearer " + token], "none": []}
    for way in job["ways"]:
        status, _, body = curl(*ways[way], *tls, base + "/kbs/v0/resource/" + job["path"])
        if status != 200: print(status, json.loads(body)["type"].rsplit("/", 1)[1]); continue
        opened = jwe.JWE(algs=["ECDH-ES+A256KW", "A256GCM"]); opened.deserialize(body, key)
        print(status, base64.b64encode(opened.payload).decode())
else:
    file = json.loads(job["file"])
    status, _, body = curl("--header", "Authorization: Bearer " + file["token"], base + "/kbs/v0/resource/" + job["path"])
    opened = jwe.JWE(algs=["ECDH-ES+A256KW", "A256GCM"]); opened.deserialize(body, jwk.JWK.from_pem(file["tee_keypair"].encode()))
    print(status, base64.b64encode(opened.payload).decode())
"#;

/// Runs the guest; nothing where the machine has no `python3-jwcrypto`.
fn guest(job: &Value) -> Option<String> {
    // The distribution's own: the package is none of another Python's.
    let python = "/usr/bin/python3";
    let has_jwcrypto = Command::new(python)
        .args(["-c", "import jwcrypto"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_jwcrypto {
        assert!(
            std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
            "python3-jwcrypto is missing: run hack/packages test"
        );
        eprintln!("skipped: python3-jwcrypto is not installed");
        return None;
    }
    let output = Command::new(python).args(["-c", GUEST, &job.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn secret_in_base64() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(SECRET)
}

#[test]
fn a_guest_proves_itself_and_gets_the_secret() {
    let given = format!("200 {}", secret_in_base64());
    for hash in [None, Some("sha256"), Some("sha384"), Some("sha512")] {
        let policy = Policy { hash, uses: Some(1), ..Policy::default() };
        let kbs = Kbs::start(vault(), policy, None).unwrap();
        let ways = ["none", "cookie", "cookie", "token"];
        let job = json!({"do": "fetch", "base": kbs.base(), "path": PATH, "ways": ways});
        let Some(said) = guest(&job) else { return };
        let said: Vec<&str> = said.lines().collect();
        // The second time, the session is used up; the token is not.
        let refused = "401 TokenNotFound";
        assert_eq!(said, [refused, &given, refused, &given], "{hash:?}");
        assert_eq!(kbs.given(), [PATH, PATH]);
        assert_eq!(kbs.requests().len(), 6);
    }
}

#[test]
fn a_guest_over_tls() {
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("kbs").unwrap();
    let roots = scratch.write("ca.pem", authority.certificate()).unwrap();
    let kbs = Kbs::start(vault(), Policy::default(), Some((&authority, "kbs.test"))).unwrap();
    assert_eq!(kbs.base(), format!("https://kbs.test:{}", kbs.port()));
    let resolve = format!("kbs.test:{0}:127.0.0.1", kbs.port());
    let tls = ["--resolve", &resolve, "--cacert", roots.to_str().unwrap()];
    let job =
        json!({"do": "fetch", "base": kbs.base(), "path": PATH, "ways": ["cookie"], "tls": tls});
    let Some(said) = guest(&job) else { return };
    assert_eq!(said.trim(), format!("200 {}", secret_in_base64()));
}

#[test]
fn a_guest_with_a_token_that_it_was_given() {
    let kbs = Kbs::start(vault(), Policy::default(), None).unwrap();
    let file = kbs.token_file().unwrap();
    let job = json!({"do": "token", "base": kbs.base(), "path": PATH, "file": file});
    let Some(said) = guest(&job) else { return };
    assert_eq!(said.trim(), format!("200 {}", secret_in_base64()));
    assert_eq!(kbs.requests().len(), 1);
}

#[test]
fn what_a_key_broker_refuses() {
    let policy = Policy { refused: vec!["default/key/secret".to_owned()], ..Policy::default() };
    let vault = vault().with("default/key/secret", "never");
    let kbs = Kbs::start(vault, policy, None).unwrap();
    for (more, refusal) in [
        (json!({"version": "0.1.1"}), "401 AttestationError"),
        // The evidence has to bind all three.
        (json!({"omit": "nonce"}), "401 AttestationError"),
        (json!({"omit": "tee-pubkey"}), "401 AttestationError"),
        (json!({"omit": "additional-evidence"}), "401 AttestationError"),
        (json!({"path": "default/key/secret"}), "401 PolicyDeny"),
        (json!({"path": "default/key/none"}), "401 PluginInternalError"),
    ] {
        let mut job = json!({"do": "fetch", "base": kbs.base(), "path": PATH, "ways": ["cookie"]});
        for (name, value) in more.as_object().unwrap() {
            job[name] = value.clone();
        }
        let Some(said) = guest(&job) else { return };
        assert_eq!(said.trim(), refusal, "{more}");
    }
    assert!(kbs.given().is_empty());
}

#[test]
fn an_attestation_agent_answers_as_the_recorded_one() {
    let scratch = Scratch::new().unwrap();
    let [request, recorded] = recorded_call("aa-extend-runtime-measurement").unwrap();
    for (event_log, expected) in [(EventLog::Off, 0), (EventLog::Kept, 1)] {
        let socket = scratch.path().join(format!("{event_log:?}.sock"));
        let agent = AttestationAgent::start(&socket, event_log).unwrap();
        let mut stream = UnixStream::connect(agent.socket()).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer == recorded, event_log == EventLog::Off);
        assert_eq!(agent.log(), vec!["d o c"; expected]);
    }
}

#[test]
fn the_offline_file_is_read_again() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.write("offline.json", vault().offline_file()).unwrap();
    assert_eq!(Vault::load(&file).unwrap().get(PATH), Some(SECRET));
    assert!(!format!("{:?}", vault()).contains("secret"));
}

#[test]
fn a_tunnel_keeps_what_passes() {
    let server = Server::always(test_http::reply("200 OK", "", "the answer"));
    let tunnel = Tunnel::start().unwrap();
    let port = server.port;
    let proxy = format!("http://127.0.0.1:{}", tunnel.port);
    let url = format!("http://server.test:{port}/{PATH}");
    let output = Command::new("curl")
        .args(["--silent", "--noproxy", "", "--proxytunnel", "--proxy", &proxy, &url])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"the answer");
    assert_eq!(tunnel.targets(), [format!("server.test:{port}")]);
    let kept = tunnel.text();
    assert!(kept.starts_with("CONNECT server.test:"), "{kept}");
    assert!(kept.contains("GET /default/key/image"), "{kept}");
}

/// To the byte, refusals included.
#[test]
fn stand_ins_answer_as_the_real_programs_did() {
    let scratch = Scratch::new().unwrap();
    let socket = |name| scratch.path().join(name);
    let vault = Vault::new()
        .with("default/misc/secret", "correct horse battery staple")
        .with("default/image-kek/k1", recorded_bytes("keyprovider/kek.bin").unwrap());
    let hub = DataHub::start(&socket("cdh"), vault).unwrap();
    let token = recorded_token();
    let proofs = Proofs { token: Some(token), ..Proofs::default() };
    let _agent = AttestationAgent::proving(&socket("aa"), EventLog::Off, proofs).unwrap();
    for (name, server) in [
        ("aa-get-evidence", "aa"),
        ("aa-get-evidence-64", "aa"),
        ("aa-get-tee", "aa"),
        ("aa-get-token", "aa"),
        ("aa-get-token-unknown", "aa"),
        ("made-aa-get-additional-evidence", "aa"),
        ("made-aa-get-additional-tees", "aa"),
        ("made-aa-unknown-method", "aa"),
        ("cdh-getresource-bad-uri", "cdh"),
        ("cdh-getresource-denied", "cdh"),
        ("cdh-getresource-missing", "cdh"),
        ("cdh-getresource-ok", "cdh"),
        ("cdh-unknown-service", "cdh"),
        ("cdh-unwrapkey-ok", "cdh"),
        ("kata-getresource-ok", "cdh"),
        ("made-cdh-unknown-method", "cdh"),
        ("made-cdh-unknown-service", "cdh"),
    ] {
        let [request, expected] = recorded_call(name).unwrap();
        let mut stream = UnixStream::connect(socket(server)).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, expected, "{name}");
    }
    assert_eq!(hub.asked().len(), 6);
}

/// What the recorded agent answers for a token.
fn recorded_token() -> String {
    let [_, answer] = recorded_call("aa-get-token").unwrap();
    let text = String::from_utf8_lossy(&answer);
    let start = text.find("{\"token\"").unwrap();
    text[start..].to_owned()
}
