"""Two builds of the programs, and a node on which either is installed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TARGET = "x86_64-unknown-linux-gnu"
PIN = Path("hack/packaging/former")
FORMER = Path("target/former").resolve()
PACKAGES = ["kata-configdev", "initdata-processor", "imagepuller"]
HANDLER = "opt/kata/qemu-snp"
PREFIX = "opt/kata-configdev"
WRAPPER = f"{PREFIX}/default/bin/kata-configdev-qemu"
SETTINGS = "etc/kata-configdev/config.toml"
DOCUMENT = "[registries.\"registry.corp\"]\nusername = \"robot\"\npassword = \"hunter2\"\n"
QEMU = "#!/bin/busybox sh\necho \"$@\"\n"
# What the installer does to a node, one by one.
WRITES = "rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir"


def fail(what):
    """Ends."""
    sys.exit(f"hack/packaging/versions: {what}")


def require(condition, what):
    """Ends where something does not hold."""
    if not condition:
        fail(what)


class Build:
    """The programs of one build."""

    def __init__(self, name, programs):
        self.name, self.programs = name, Path(programs).resolve()
        for program in ("kata-configdev", "kata-configdev-qemu", "imagepuller"):
            require((self.programs / program).is_file(), f"{self.programs} has no {program}")

    def path(self, program):
        """One of the programs."""
        return self.programs / program

    def run(self, program, *arguments, code=0, stdin=""):
        """Runs one; returns what it printed, errors behind the rest."""
        ended = subprocess.run([self.path(program), *arguments], input=stdin, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                               timeout=120)
        told = ended.stdout + ended.stderr
        require(ended.returncode == code,
                f"{self.name}: {program} {arguments} ended with {ended.returncode}:\n{told}")
        return told


def pinned():
    """The commit of the former build."""
    lines = PIN.read_text(encoding="utf-8").splitlines()
    commit, = (line for line in lines if line and not line.startswith("#"))
    there = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], check=False,
                           stderr=subprocess.DEVNULL)
    require(there.returncode == 0,
            f"this clone does not have {commit}, the commit of {PIN}: fetch the whole history "
            "(git fetch --unshallow), because nothing can be compared with it")
    return commit


def former():
    """Builds the former programs, below target/former, with this tree's compiler."""
    commit, tree = pinned(), FORMER / "tree"
    if not tree.exists():
        FORMER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "worktree", "prune"], check=True)
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    subprocess.run(["git", "checkout", "--quiet", "--detach", "--force", commit], cwd=tree,
                   check=True)
    # Nothing of the caller's, as in hack/environment.
    of_caller = re.compile(r"RUSTC|RUSTFLAGS|RUSTUP_TOOLCHAIN|CARGO_(ENCODED|BUILD|PROFILE|TARGET)")
    environment = {key: value for key, value in os.environ.items() if not of_caller.match(key)}
    environment |= {"CARGO_TARGET_DIR": str(FORMER / "build"), "CARGO_INCREMENTAL": "0"}
    if shutil.which("rustup"):
        environment["RUSTUP_TOOLCHAIN"] = subprocess.run(
            ["rustup", "show", "active-toolchain"], stdout=subprocess.PIPE, check=True,
            text=True).stdout.split()[0]
    subprocess.run(["cargo", "build", "--quiet", "--locked",
                    *(f"--package={name}" for name in PACKAGES)],
                   cwd=tree, env=environment, check=True)
    return Build(commit[:7], FORMER / "build" / TARGET / "debug")


class Node:
    """A node below a directory, where sandboxes can be started as Kata does."""

    def __init__(self, place):
        self.place, self.host = place, place / "host"
        for folder in (HANDLER, "opt/kata/bin", "etc", "bin", "proc", "run"):
            (self.host / folder).mkdir(parents=True)
        self.write(f"{HANDLER}/configuration.toml",
                   "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n")
        self.write("opt/kata/bin/qemu", QEMU, 0o755)
        (self.host / "bin/busybox").write_bytes(Path("/bin/busybox").read_bytes())
        (self.host / "bin/busybox").chmod(0o755)
        # As the kubelet mounts a secret.
        secret = place / "secret"
        (secret / "..1").mkdir(parents=True)
        (secret / "..1/imagepuller.toml").write_text(DOCUMENT, encoding="utf-8")
        (secret / "..data").symlink_to("..1")
        (secret / "imagepuller.toml").symlink_to("..data/imagepuller.toml")
        self.before = self.files()

    def write(self, name, text, mode=0o644):
        """Writes a file of the node."""
        path = self.host / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def read(self, name):
        """Reads one."""
        return (self.host / name).read_text(encoding="utf-8")

    def files(self):
        """The paths of all files, with what they say."""
        paths = (path for path in self.host.rglob("*") if path.is_file())
        return {str(path.relative_to(self.host)): path.read_bytes() for path in paths}

    def configuration(self, build, more=""):
        """The installer's configuration, with `more` lines of the set."""
        path = self.place / "installer.toml"
        path.write_text(
            f"host = \"{self.host}\"\nprefix = \"/{PREFIX}\"\nlisten = \"127.0.0.1:0\"\n"
            f"wrapper = \"{build.path('kata-configdev-qemu')}\"\nbinaries = [\"/opt/kata/bin\"]\n"
            f"owner = \"team/kata\"\n[sets.default]\nsecret = \"{self.place / 'secret'}\"\n"
            f"handlers = [\"/{HANDLER}\"]\nsettings = {{ qemu = \"/opt/kata/bin/qemu\" }}\n{more}",
            encoding="utf-8")
        return path

    def install(self, build, more="", code=0):
        """One pass of the installer."""
        path = self.configuration(build, more)
        return build.run("kata-configdev", "install", "--config", path, code=code)

    def uninstall(self, build, code=0):
        """Removes everything."""
        path = self.configuration(build)
        return build.run("kata-configdev", "uninstall", "--config", path, code=code)

    def has_wrapper_of(self, build):
        """Whether the wrapper is that of a build."""
        return (self.host / WRAPPER).read_bytes() == build.path("kata-configdev-qemu").read_bytes()

    def start(self):
        """Starts a sandbox; returns whether it got its document, and what was said."""
        started = subprocess.run(
            ["unshare", "--mount", "sh", "-c",
             'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', self.host, f"/{WRAPPER}",
             "-name", "sandbox-1", "-machine", "q35", "-device",
             "pcie-pci-bridge,id=pci-bridge-0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        is_given = started.returncode == 0 and "serial=imagepuller" in started.stdout
        return is_given, started.stdout + started.stderr

    def starts(self):
        """Requires that a sandbox starts, with its document."""
        is_given, told = self.start()
        require(is_given, f"no sandbox starts:\n{told}")

    def install_step_by_step(self, build, more=""):
        """One pass of the installer, stopped behind each system call that changes the node. Returns
        what a sandbox said each time that did not start."""
        path = self.configuration(build, more)
        log = self.place / "trace"
        command = ["strace", "--quiet=all", "--output", log, "--trace", WRITES,
                   "--inject", f"{WRITES}:signal=STOP", build.path("kata-configdev"), "install",
                   "--config", path]
        refused, steps = [], 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as tracer:
            while child := _stopped(tracer, log, steps):
                steps += 1
                is_given, told = self.start()
                if not is_given:
                    refused.append(told)
                os.kill(child, signal.SIGCONT)
            told = tracer.stderr.read()
        require(tracer.returncode == 0, f"{build.name}: install ended with {tracer.returncode}:"
                f"\n{told}")
        require(steps >= 4, f"the installer was stopped {steps} times only")
        return refused


def _stopped(tracer, log, steps):
    """Waits until the traced process was stopped more than so many times; its id, or None once it
    has ended."""
    children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children")
    while tracer.poll() is None:
        stops = log.read_text(encoding="utf-8") if log.exists() else ""
        if stops.count("--- stopped by SIGSTOP ---") > steps:
            return int(children.read_text(encoding="ascii").split()[0])
        time.sleep(0.01)
    return None


def keys(value, above=""):
    """The keys of a JSON object, with those below."""
    found = set()
    for key, inner in value.items():
        found.add(above + key)
        if isinstance(inner, dict):
            found |= keys(inner, f"{above}{key}.")
    return found


def load(text):
    """The JSON object that a program printed."""
    return json.loads(text)
