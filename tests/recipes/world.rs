//! A node of its own for each recipe: a network where the names of the page are this machine, on
//! the ports that the page names; directories that nobody else sees; the built programs.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use test_http::Listener;
use test_http::pki::Authority;
use vm_harness::{Program, Scratch};

use crate::recipes::page::Way;

/// Set for the test inside of the node: what is followed there.
const INSIDE: &str = "RECIPES_INSIDE";

/// Where root finds programs on Debian.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is the node's own. Everything in it is in memory.
pub const OWN: &str = "/mnt";

/// Where commands are typed.
pub const PLACE: &str = "/mnt/place";

/// The directories of the machine that the node has a copy of.
const COPIED: &str = "etc usr/local opt var/lib home";

/// Makes the node's directories and network, then becomes the program in `$1` and what follows.
const ENTER: &str = r#"
own=$1; shift
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs "$own"
for directory in $1; do
    mkdir -p "$own/up/$directory" "$own/work/$directory"
    mount -t overlay overlay -o \
        "lowerdir=/$directory,upperdir=$own/up/$directory,workdir=$own/work/$directory" \
        "/$directory"
done
shift
mount -t tmpfs -o mode=755 tmpfs /run
exec "$@"
"#;

/// Runs `play` for each way, each in a node of its own. The name is that of the calling test, which
/// is skipped without root.
pub fn each_way(test: &str, play: impl Fn(Way) -> Result<()>) -> Result<()> {
    each(test, &Way::ALL.map(Way::heading), |heading| {
        let way = Way::ALL.into_iter().find(|way| way.heading() == heading);
        play(way.context("an unknown way")?)
    })
}

/// The same for other names than those of ways.
pub fn each(test: &str, names: &[&str], play: impl Fn(&str) -> Result<()>) -> Result<()> {
    if !vm_harness::is_root(test) {
        return Ok(());
    }
    if let Ok(name) = std::env::var(INSIDE) {
        return play(&name);
    }
    let test = format!("recipes::{test}");
    for name in names {
        println!("{name}");
        let output = Command::new("unshare")
            .args(["--mount", "--net", "--propagation", "private"])
            .args(["sh", "-ec", ENTER, "sh", OWN, COPIED])
            .arg(std::env::current_exe()?)
            .args([&test, "--exact", "--nocapture"])
            // Neither proxies nor logins of who runs the tests.
            .env_clear()
            .envs([("PATH", PATH), ("HOME", OWN), (INSIDE, *name)])
            .output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        println!("{said}");
        ensure!(said.contains("1 passed"), "{name}: it did not work");
    }
    Ok(())
}

/// The node.
#[derive(Debug)]
pub struct World {
    /// For the servers around the node.
    pub scratch: Scratch,
    /// Signs for the names of the public web, and stands for all of its authorities.
    pub web: Authority,
    names: Mutex<Vec<String>>,
    relays: Mutex<Vec<Listener>>,
}

impl World {
    /// A node with Kata and this project's programs.
    pub fn new() -> Result<Self> {
        let world = Self {
            scratch: Scratch::new()?,
            web: Authority::new("the web")?,
            names: Mutex::default(),
            relays: Mutex::default(),
        };
        fs::create_dir_all(PLACE)?;
        fs::create_dir_all("/usr/local/bin")?;
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        symlink(checkout.join("deploy"), Path::new(PLACE).join("deploy"))?;
        for program in [Program::KataConfigdev, Program::KataConfigdevQemu] {
            fs::copy(program.path()?, Path::new("/usr/local/bin").join(program.name()))?;
        }
        world.install_kata()?;
        world.trust_the_web()?;
        for (name, text) in [("kubectl", include_str!("kubectl")), ("helm", include_str!("helm"))] {
            program(Path::new("/usr/local/bin"), name, text)?;
        }
        Ok(world)
    }

    /// What Kata's installer leaves, as far as anybody here looks.
    fn install_kata(&self) -> Result<()> {
        let handler = "/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp";
        fs::create_dir_all(handler)?;
        fs::create_dir_all("/opt/kata/bin")?;
        program(Path::new("/opt/kata/bin"), "qemu-system-x86_64", "#!/bin/sh\n")?;
        let main = Path::new(handler).join("configuration-qemu-snp.toml");
        let text = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n";
        Ok(fs::write(main, text)?)
    }

    /// The built puller has the web's authorities in it. So that it believes this node's web, it
    /// is started with a measured document that has the authority, and nothing else of a registry.
    ///
    /// Other programs of the node find it where Debian has the web's authorities.
    fn trust_the_web(&self) -> Result<()> {
        let mut system = File::options().append(true).open("/etc/ssl/certs/ca-certificates.crt")?;
        system.write_all(self.web.certificate().as_bytes())?;
        fs::write(self.roots(), self.measured_roots())?;
        let text = format!(
            "#!/bin/sh\ncommand=$1; shift\nexec '{}' \"$command\" --measured '{}' \"$@\"\n",
            Program::Imagepuller.path()?.display(),
            self.roots().display()
        );
        program(Path::new("/usr/local/bin"), "imagepuller", &text)
    }

    /// From now on the puller on the node has nothing but what the page gives it.
    pub fn without_the_web(&self) -> Result<()> {
        Ok(fs::write(self.roots(), "")?)
    }

    fn roots(&self) -> PathBuf {
        Path::new(OWN).join("roots.toml")
    }

    /// A measured document that stands for the web's authorities.
    pub fn measured_roots(&self) -> String {
        format!("[registries.\".\"]\nca-certs = '''\n{}'''\n", self.web.certificate())
    }

    /// Makes `name` a host of its own, whose port leads to a port of 127.0.0.1.
    pub fn lead(&self, name: &str, port: u16, to: u16) -> Result<()> {
        let mut names = self.names.lock().unwrap();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for name in names.iter() {
            writeln!(hosts, "{} {name}", address(&names, name))?;
        }
        fs::write(HOSTS, hosts)?;
        self.relay(SocketAddr::new(address(&names, name), port), to)
            .with_context(|| name.to_owned())
    }

    /// Makes an address lead to a port of 127.0.0.1.
    pub fn relay(&self, from: SocketAddr, to: u16) -> Result<()> {
        let relay = Listener::start(from, move |client, _ticket| {
            if let Ok(server) = TcpStream::connect(("127.0.0.1", to)) {
                relay(&client, &server);
            }
        });
        let relay = relay.with_context(|| format!("failed to listen on {from}"))?;
        self.relays.lock().unwrap().push(relay);
        Ok(())
    }

    /// From now on nobody knows the host.
    pub fn forget(&self, name: &str) -> Result<()> {
        let hosts = fs::read_to_string(HOSTS)?;
        let others = hosts.lines().filter(|line| !line.ends_with(name));
        Ok(fs::write(HOSTS, others.collect::<Vec<_>>().join("\n") + "\n")?)
    }
}

/// Where names mean addresses.
const HOSTS: &str = "/etc/hosts";

/// Each name has an address of its own, so that many can have port 443.
fn address(names: &[String], name: &str) -> IpAddr {
    let place = names.iter().position(|known| known == name);
    let last = place.and_then(|place| u8::try_from(place + 1).ok());
    Ipv4Addr::new(127, 0, 1, last.unwrap_or_default()).into()
}

fn relay(client: &TcpStream, server: &TcpStream) {
    std::thread::scope(|scope| {
        scope.spawn(|| pass(client, server));
        pass(server, client);
    });
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = [0; 1 << 14];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Writes a program.
pub fn program(directory: &Path, name: &str, text: &str) -> Result<()> {
    fs::create_dir_all(directory)?;
    let path = directory.join(name);
    fs::write(&path, text)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(0o755))?)
}
