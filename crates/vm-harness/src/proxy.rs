//! Real proxies: Debian's `squid`, `tinyproxy` and `microsocks`, with a password. Certain names mean
//! this machine to them and to no other program.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use test_http::pki::Identity;

use crate::process::{bound_command, read_lossy, run_with_input};
use crate::{Background, Port, Scratch};

/// What a proxy does, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Its one user.
    pub username: &'a str,
    /// That user's password.
    pub password: &'a str,
    /// Names that mean this machine to the proxy.
    pub names: &'a [&'a str],
    /// The ports it opens a way to; empty for all.
    pub ports: &'a [u16],
}

/// A running proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Proxy {
    process: Background,
    port: u16,
    /// Where it writes what it was asked; without it on its output.
    access_log: Option<PathBuf>,
}

impl Proxy {
    /// Starts `squid`, which opens ways to the names of the rules and to nothing else.
    ///
    /// # Errors
    ///
    /// Where `squid` or `htpasswd` are missing or do not start.
    pub fn squid(scratch: &Scratch, rules: &Rules<'_>) -> Result<Self> {
        // No password in an argument list, not even here.
        let typed = scratch.write("squid.password", rules.password)?;
        let entry = run_with_input(scratch, "htpasswd", ["-in", rules.username], &typed)?;
        let directory = scratch.path().join("squid");
        fs::create_dir(&directory)?;
        let own = |name: &str, content: &[u8]| -> Result<PathBuf> {
            let path = scratch.write(&format!("squid/{name}"), content)?;
            give_away(&path)?;
            Ok(path)
        };
        give_away(&directory)?;
        // To be gone through, not to be read: what lies beside is not squid's business.
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o711))?;
        own("passwd", &entry.stdout)?;
        own("hosts", hosts(rules).as_bytes())?;
        let access_log = directory.join("access");
        let mut proxy = start("squid", scratch, "Accepting HTTP Socket connections", |port| {
            let config = own("conf", squid_config(&directory, rules, port).as_bytes())?;
            // The name keeps its shared memory apart from that of others.
            let name = format!("configdev{port}");
            let mut command = unprivileged("squid");
            command.args(["-N", "-d", "1", "-n", &name, "-f"]).arg(config);
            Ok(command)
        })?;
        proxy.access_log = Some(access_log);
        Ok(proxy)
    }

    /// Starts `tinyproxy` under a `/etc/hosts` of its own. Only root can.
    ///
    /// # Errors
    ///
    /// Where `tinyproxy` is missing or does not start, or without the right to mount.
    pub fn tinyproxy(scratch: &Scratch, rules: &Rules<'_>) -> Result<Self> {
        start("tinyproxy", scratch, "Starting main loop", |port| {
            let mut config = format!(
                "Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nMaxClients 50\nLogLevel \
                Info\nBasicAuth {} {}\n",
                rules.username, rules.password
            );
            for port in rules.ports {
                config.push_str(&format!("ConnectPort {port}\n"));
            }
            let config = scratch.write(&format!("tinyproxy-{port}.conf"), config)?;
            let mut command = with_hosts(scratch, rules)?;
            command.arg("tinyproxy -d -c \"$1\"").arg(config);
            Ok(command)
        })
    }

    /// Starts `microsocks`, a SOCKS5 proxy, under a `/etc/hosts` of its own. Only root can. It
    /// opens ways to all ports.
    ///
    /// # Errors
    ///
    /// Where `microsocks` is missing or does not start, or without the right to mount.
    pub fn microsocks(scratch: &Scratch, rules: &Rules<'_>) -> Result<Self> {
        start("microsocks", scratch, "", |port| {
            let mut command = with_hosts(scratch, rules)?;
            command.arg("microsocks -i 127.0.0.1 -p \"$1\" -u \"$2\" -P \"$3\"").args([
                &port.to_string(),
                rules.username,
                rules.password,
            ]);
            Ok(command)
        })
    }

    /// Starts `socat`, which speaks TLS in front of a port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Where `socat` is missing or does not start.
    pub fn tls_front(scratch: &Scratch, identity: &Identity, to: u16) -> Result<Self> {
        let text = format!("{}{}", identity.certificate, identity.key);
        start("socat", scratch, "", |port| {
            let file = scratch.write(&format!("front-{port}.pem"), &text)?;
            let listen = "bind=127.0.0.1,reuseaddr,fork,verify=0";
            let mut command = bound_command("socat");
            command
                .arg(format!("OPENSSL-LISTEN:{port},{listen},cert={}", file.display()))
                .arg(format!("TCP:127.0.0.1:{to}"));
            Ok(command)
        })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What it wrote about its clients so far; `squid` writes about a way when it is closed again.
    #[must_use]
    pub fn log(&self) -> String {
        match &self.access_log {
            Some(path) => read_lossy(path),
            None => self.process.output(),
        }
    }

    /// The hosts and ports to which it was asked to open a way, refused ones included, in the order
    /// of asking.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        let log = self.log();
        match &self.access_log {
            Some(_) => squid_asked(&log),
            None => log.lines().filter_map(tinyproxy_asked).collect(),
        }
    }
}

/// A shell that sees the names of the rules in `/etc/hosts`. What is missing is the command that it
/// runs, as one argument, and the command's own arguments from `$1`.
fn with_hosts(scratch: &Scratch, rules: &Rules<'_>) -> Result<Command> {
    let hosts = scratch.write("proxy.hosts", hosts(rules))?;
    let script = "run=$1; shift; mount --bind \"$0\" /etc/hosts && eval \"exec $run\"";
    let mut command = bound_command("unshare");
    command.args(["--mount", "--propagation", "private"]).args(["sh", "-c", script]).arg(hosts);
    Ok(command)
}

/// Starts a proxy on a port of its own and waits until it says that it is `ready`, or, where it
/// never says so, until it listens.
fn start(
    name: &str,
    scratch: &Scratch,
    ready: &str,
    command: impl Fn(u16) -> Result<Command>,
) -> Result<Proxy> {
    let reserved = Port::reserve()?;
    let port = reserved.number();
    let mut process = Background::spawn(&format!("{name}-{port}"), command(port)?, scratch)?;
    let is_ready = |output: &str| match ready {
        "" => TcpStream::connect(("127.0.0.1", port)).is_ok(),
        ready => output.contains(ready),
    };
    process
        .wait_for(Duration::from_secs(60), |output| is_ready(output).then_some(()))
        .with_context(|| format!("{name} did not start"))?;
    Ok(Proxy { process, port, access_log: None })
}

/// Who `squid` is, for it does not run as root: Debian's `nobody`.
const NOBODY: u32 = 65534;

/// Gives a file to who `squid` will be.
fn give_away(path: &Path) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}

fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return bound_command(program);
    }
    let mut command = bound_command("setpriv");
    // Becoming somebody else takes the parent-death signal away, so it is set again behind it.
    command
        .arg(format!("--reuid={NOBODY}"))
        .arg(format!("--regid={NOBODY}"))
        .args(["--clear-groups", "--pdeathsig", "KILL", "--"])
        .arg(program);
    command
}

fn hosts(rules: &Rules<'_>) -> String {
    format!("127.0.0.1 localhost {}\n", rules.names.join(" "))
}

fn squid_config(directory: &Path, rules: &Rules<'_>, port: u16) -> String {
    let directory = directory.display();
    let ports: Vec<_> = rules.ports.iter().map(ToString::to_string).collect();
    format!(
        "http_port 127.0.0.1:{port}\n\
         pid_filename none\n\
         cache deny all\n\
         cache_mem 8 MB\n\
         cache_log /dev/null\n\
         cache_store_log none\n\
         coredump_dir none\n\
         netdb_filename none\n\
         pinger_enable off\n\
         visible_hostname proxy.corp\n\
         shutdown_lifetime 0 seconds\n\
         access_log stdio:{directory}/access\n\
         hosts_file {directory}/hosts\n\
         auth_param basic program /usr/lib/squid/basic_ncsa_auth {directory}/passwd\n\
         auth_param basic realm proxy.corp\n\
         acl CONNECT method CONNECT\n\
         acl names dstdomain -n {names}\n\
         acl ports port {ports}\n\
         acl user proxy_auth REQUIRED\n\
         http_access deny !CONNECT\n\
         http_access deny !user\n\
         http_access deny !names\n\
         http_access deny !ports\n\
         http_access allow all\n",
        names = rules.names.join(" "),
        ports = ports.join(" "),
    )
}

/// Each line ends a request and says how many milliseconds it took.
fn squid_asked(log: &str) -> Vec<String> {
    let mut asked: Vec<(f64, String)> = log
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [end, took_ms, _client, _result, _bytes, "CONNECT", target, ..] = fields[..] else {
                return None;
            };
            let (end, took_ms): (f64, f64) = (end.parse().ok()?, took_ms.parse().ok()?);
            Some((end - took_ms / 1000.0, target.to_owned()))
        })
        .collect();
    asked.sort_by(|one, other| one.0.total_cmp(&other.0));
    asked.into_iter().map(|(_, target)| target).collect()
}

fn tinyproxy_asked(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("): CONNECT ")?;
    Some(rest.split_once(' ')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_was_asked_is_read_from_its_log() {
        let squid = "1700000010.500   9000 127.0.0.1 TCP_TUNNEL/200 1 CONNECT first.corp:1 robot \
        HIER_DIRECT/127.0.0.1 -\n\
                     1700000003.000      1 127.0.0.1 TCP_DENIED/403 1 CONNECT second.corp:2 - \
                     HIER_NONE/- text/html\n\
                     1700000003.000      1 127.0.0.1 TCP_DENIED/403 1 GET http://third.corp/ - \
                     HIER_NONE/- text/html\n";
        assert_eq!(squid_asked(squid), ["first.corp:1", "second.corp:2"]);
        let tinyproxy = "CONNECT   Nov 21 04:36:02 [1]: Connect (file descriptor 4): 127.0.0.1\n\
                         CONNECT   Nov 21 04:36:02 [1]: Request (file descriptor 4): CONNECT \
                         a.corp:1 HTTP/1.1\n";
        let asked: Vec<_> = tinyproxy.lines().filter_map(tinyproxy_asked).collect();
        assert_eq!(asked, ["a.corp:1"]);
    }
}
