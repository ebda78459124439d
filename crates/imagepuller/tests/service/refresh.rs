//! Pulls that fail for what a configuration decides, while the host has another one by now: the
//! puller asks once, and begins anew where there is another file.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{PASSWORD, Puller, Site, misbehaving, noise, with_local_hosts};
use fault_registry::{Action, Content, End, FaultRegistry, Image, Layer, Script, What};
use test_http::pki::Authority;
use vm_harness::Proxy;
use vm_harness::proxy::Rules;

/// A configuration disk, and the program that reads it when it is asked to.
struct Disk {
    /// What the disk has at the next question, and the measured document with it; nothing: what
    /// there was before. No host has another measured one, but its proxies may be on this machine.
    next: Sender<[String; 2]>,
    questions: Receiver<()>,
}

impl Disk {
    fn of(puller: &Puller) -> Self {
        let (next, disks) = mpsc::channel::<[String; 2]>();
        let (asked, questions) = mpsc::channel();
        let listener = UnixListener::bind(puller.refresher()).unwrap();
        let files = [puller.document().with_file_name("measured.toml"), puller.document()];
        thread::spawn(move || {
            for stream in listener.incoming() {
                for (file, text) in files.iter().zip(disks.try_recv().into_iter().flatten()) {
                    replace(file, &text);
                }
                let _ = asked.send(());
                let _ = stream.unwrap().write_all(b"replaced");
            }
        });
        Self { next, questions }
    }

    fn has(&self, measured: &str, document: &str) {
        self.next.send([with_local_hosts(measured, None), document.to_owned()]).unwrap();
    }

    /// How many questions there were since the last look.
    fn questions(&self) -> usize {
        self.questions.try_iter().count()
    }
}

fn replace(document: &Path, text: &str) {
    let staging = document.with_extension("new");
    fs::write(&staging, text).unwrap();
    fs::rename(staging, document).unwrap();
}

/// A port at which each connection ends at once.
fn hangs_up() -> u16 {
    counted().0
}

/// The same, and how many connections there were.
fn counted() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for _ in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, count)
}

/// An image at a registry that does as the script says; also the document that opens it. Its layer
/// is too large to be read before it is known what the image has.
fn scripted(script: Script) -> (FaultRegistry, String, String) {
    let mut content = Content::default();
    let layer = Layer::gzip(&[("file", &noise(3 << 20, 1))]).unwrap();
    let digest = Image::new(vec![layer]).publish(&mut content);
    let (registry, document) = misbehaving(content, script);
    let image = format!("localhost:{}/team/app@{digest}", registry.address().port());
    (registry, image, document)
}

/// A document without its credentials.
fn without_account(document: &str) -> String {
    let is_other = |line: &&str| !line.starts_with("username") && !line.starts_with("password");
    document.lines().filter(is_other).map(|line| format!("{line}\n")).collect()
}

/// A pull once failed with what the node had replaced already, and the next one too until the guest
/// happened to read its disk.
#[test]
fn privileged_what_a_configuration_decides_reaches_a_running_puller_by_one_question() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, None);
    let disk = Disk::of(&puller);
    let right = site.document("localhost");
    let former = Authority::new("former authority").unwrap();
    // Only the proxy knows this name.
    let (username, password) = ("proxyuser", "proxypass");
    let rules = Rules { username, password, names: &["registry.corp"], ports: &[] };
    let proxy = Proxy::tinyproxy(&site.scratch, &rules).unwrap();
    let proxied = |password: &str, port: u16| {
        format!("[extra-env]\nHTTPS_PROXY = \"http://{username}:{password}@127.0.0.1:{port}\"\n")
    };
    let through = proxied(password, proxy.port());
    let corp = site.document("registry.corp");
    let mirrored = |port: u16| format!("{right}mirror = \"https://localhost:{port}\"\n");
    let (image, closed) = (site.image(), hangs_up());
    let of_corp = site.image_at("registry.corp");
    let unreachable = image.replace(&site.registry.port().to_string(), &closed.to_string());
    for (story, before, then, image) in [
        ("an account", ("", &*right.replace(PASSWORD, "wrong")), ("", &*right), &image),
        ("no account", ("", &without_account(&right)), ("", &right), &image),
        ("no document", ("", "node-error = \"no password yet\"\n"), ("", &right), &image),
        (
            "roots",
            ("", &right.replace(site.authority.certificate(), former.certificate())),
            ("", &right),
            &image,
        ),
        (
            "a proxy that refuses",
            (&proxied("wrong", proxy.port()), &corp),
            (&through, &corp),
            &of_corp,
        ),
        ("a proxy that is not there", (&proxied("", closed), &corp), (&through, &corp), &of_corp),
        ("no proxy", ("", &corp), (&through, &corp), &of_corp),
        ("a mirror", ("", &mirrored(closed)), ("", &right), &image),
        ("a host", ("", &right), ("", &mirrored(site.registry.port())), &unreachable),
    ] {
        println!("{story}");
        puller.measure(before.0);
        puller.configure(before.1);
        puller.forget_documents();
        disk.has(then.0, then.1);
        puller.pull(image, &story.replace(' ', "-"));
        assert_eq!(disk.questions(), 1, "{story}");
        assert_eq!(fs::read_to_string(puller.document()).unwrap(), then.1, "{story}");
    }
    puller.measure("");
    // What nothing else comes of is the pull's own error, also where something else is wrong then.
    for (then, words) in [
        (None, "refused the credentials of entry"),
        (Some("node-error = \"no password yet\"\n"), "the node says: no password yet"),
    ] {
        puller.configure(&right.replace(PASSWORD, "wrong"));
        puller.forget_documents();
        if let Some(then) = then {
            disk.has("", then);
        }
        puller.refuse(&image, if words.contains("node") { 65 } else { 69 }, &[words]);
        assert_eq!(disk.questions(), 1, "{words}");
    }
    // Nothing that a configuration decides.
    puller.configure(&right);
    puller.refuse(&image.replace("sha256:", "sha256:0"), 65, &["digest"]);
    puller.pull(&image, "right");
    assert_eq!(disk.questions(), 0);
}

/// The shipped service asks a host again that cannot be reached for as long as its caller waits: no
/// pull of it ever ended in time for a question.
#[test]
fn privileged_a_pull_that_asks_again_and_again_does_not_wait_for_its_end() {
    vm_harness::needs_root!();
    let site = Site::start();
    let right = site.document("localhost");
    let puller = Puller::start_with(&site.scratch, &right, &[]);
    let disk = Disk::of(&puller);
    let (closed, count) = counted();
    let image = site.image().replace(&site.registry.port().to_string(), &closed.to_string());
    disk.has("", &format!("{right}mirror = \"https://localhost:{}\"\n", site.registry.port()));
    let output = puller.client(&image, "mirrored").args(["--timeout", "60"]).output().unwrap();
    assert!(output.status.success(), "{output:?}\n{}", puller.log());
    assert_eq!(disk.questions(), 1);
    // The fetch by the former configuration has ended.
    let before = count.load(Ordering::SeqCst);
    thread::sleep(Duration::from_secs(5));
    assert_eq!(count.load(Ordering::SeqCst), before);
}

/// A registry that hides images, or counts pulls, says the same to nobody as to whoever may have
/// nothing.
#[test]
fn privileged_a_refusal_is_about_the_configuration_where_nobody_was_asked_as_anybody() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, None);
    let disk = Disk::of(&puller);
    for (status, times) in [(404, 1), (429, 5)] {
        let script = || Script::new().times(What::Manifest, ..=times, [Action::status(status)]);
        let (_registry, image, document) = scripted(script());
        puller.configure(&without_account(&document));
        disk.has("", &document);
        puller.pull(&image, &format!("anonymous-{status}"));
        assert_eq!(disk.questions(), 1, "{status}");
        puller.forget_documents();

        let (_registry, image, document) = scripted(script().always(What::Manifest, []));
        puller.configure(&document);
        match status {
            404 => puller.refuse(&image, 69, &["404"]),
            _ => drop(puller.request(&image, "counted")),
        }
        assert_eq!(disk.questions(), 0, "{status}, and it was asked with an account");
        puller.forget_documents();
    }
}

#[test]
fn privileged_a_pull_that_has_bytes_of_a_layer_asks_nothing() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, None);
    let disk = Disk::of(&puller);
    for (broken, expected) in [(1, 0), (0, 1)] {
        let cut = [Action::cut(100_000, End::Close)];
        let script = Script::new().times(What::Layer(0), ..=broken, cut);
        let script = script.times(What::Layer(0), broken + 1.., [Action::status(403)]);
        let (_registry, image, document) = scripted(script);
        puller.configure(&document);
        puller.refuse(&image, 69, &["403"]);
        assert_eq!(disk.questions(), expected);
    }
}

#[test]
fn privileged_all_sources_and_tries_of_a_pull_are_one_question() {
    vm_harness::needs_root!();
    let site = Site::start();
    let puller = Puller::start(&site.scratch, None);
    let disk = Disk::of(&puller);
    let [one, two] = [hangs_up(), hangs_up()];
    let mirrors = format!("mirrors = [\"https://localhost:{one}\", \"https://localhost:{two}\"]\n");
    let fallback = "mirror-fallback = true\n";
    let document = site.document("localhost").replace(PASSWORD, "wrong");
    puller.configure(&(document + &mirrors + fallback));
    let words = ["every source failed", "cannot reach", "refused the credentials"];
    puller.refuse(&site.image(), 69, &words);
    assert_eq!(disk.questions(), 1);
}

/// A disk that stands still costs a pull five seconds, and never more than its caller has.
#[test]
fn privileged_a_question_without_an_answer_leaves_the_pull_its_error_and_its_deadline() {
    vm_harness::needs_root!();
    let site = Site::start();
    let wrong = site.document("localhost").replace(PASSWORD, "wrong");
    let puller = Puller::start(&site.scratch, Some(&wrong));
    let _silent = UnixListener::bind(puller.refresher()).unwrap();
    let start = Instant::now();
    puller.refuse(&site.image(), 69, &["refused the credentials of entry"]);
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(5), "{took:?}");
    assert!(puller.log().contains("is not read within 5 s"), "{}", puller.log());
    let mut client = puller.client(&site.image(), "late");
    let output = client.args(["--timeout", "3"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("deadline of 3 s passed"), "{error}");
}
