"""A fresh root directory of Debian's, and what is run in it."""

import os
import subprocess
import sys
from pathlib import Path

# Whatever else is there afterwards, a package left.
OF_DPKG = ("/var/lib/dpkg", "/var/log", "/var/cache", "/var/lib/systemd/deb-systemd")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
# Made once for each list of packages: mmdebstrap takes longest here.
KEEP = "CONFIGDEV_ROOTS"


def fail(what):
    """Ends."""
    sys.exit(f"hack/packaging/installed: {what}")


class Root:
    """A root directory with these packages of Debian's; mmdebstrap makes it from the mirror that
    apt is configured with. In the directory CONFIGDEV_ROOTS archives of them are kept for the next
    time."""

    def __init__(self, place, packages):
        self.place = place
        place.mkdir()
        keep = Path(os.environ.get(KEEP) or place.parent)
        ready = keep / ("-".join(["root", *packages]) + ".tar")
        if not ready.exists():
            keep.mkdir(parents=True, exist_ok=True)
            made = ready.with_suffix(".part.tar")
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase",
                            f"--include={','.join(packages)}", "bookworm", made], check=True)
            made.rename(ready)
        subprocess.run(["tar", "-xf", ready, "-C", place], check=True)

    def run(self, *command, stdin="", code=0):
        """Runs a command in it; returns what it printed."""
        ended = subprocess.run(
            # No device of this machine is in reach, and no mount stays.
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c",
             'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', self.place, *command],
            input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT,
            text=True, check=False)
        if ended.returncode != code:
            fail(f"{command} ended with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout

    def listing(self):
        """Every path and, below /etc, every content."""
        found = {}
        for folder, folders, files in os.walk(self.place):
            inner = "/" + os.path.relpath(folder, self.place)
            if inner.startswith(OF_DPKG):
                continue
            for name in [*folders, *files]:
                path = Path(folder) / name
                is_plain = inner.startswith("/etc") and path.is_file() and not path.is_symlink()
                found[f"{inner}/{name}"] = path.read_bytes() if is_plain else None
        return found

    def path(self, name):
        """A path of this root, as this machine sees it."""
        return self.place / name.strip("/")

    def write(self, name, content, mode=0o644):
        """Writes a file."""
        place = self.path(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(mode)

    def install(self, folder, packages):
        """Installs packages of ours with nothing from elsewhere. Nothing is enabled, and /etc stays
        as it is. Returns what was there before."""
        before = self.listing()
        for package in packages:
            file, = folder.glob(f"{package}_*.deb")
            self.write("/packages/" + file.name, file.read_bytes())
        self.run("sh", "-c", "dpkg --install /packages/*.deb && rm -r /packages")
        below_etc = [{path: content for path, content in listing.items()
                      if path.startswith("/etc")} for listing in (before, self.listing())]
        same(*below_etc, "/etc after an installation")
        return before

    def purge(self, packages, before, mine):
        """Purges them: what they brought goes; what people wrote, `mine`, stays."""
        written = self.listing()
        self.run("dpkg", "--purge", *packages)
        after = self.listing()
        people = {path for path in after if path.startswith(mine)}
        if any(after[path] != written[path] for path in people):
            fail("the purge changed what people wrote")
        ours = [path for path in after if path not in before and path not in people
                and not path.startswith(("/run", "/tmp", "/dev"))]
        if ours or [path for path in before if path not in after]:
            fail(f"the purge left {ours[:20]}, or took something that was there before")


def same(before, after, when):
    """Whether two listings are the same."""
    differs = sorted(path for path in {*before, *after}
                     if before.get(path, 0) != after.get(path, 0))
    if differs:
        fail(f"{when} differs: {differs[:20]}")
