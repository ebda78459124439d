"""The Debian packages. dpkg-deb packs them: it also checks them."""

import os
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from contents import documents, joined
from tree import Tree, gz

# What a package says of itself: the first line is the short description.
DESCRIPTIONS = {
    "kata-configdev": """registry configuration for Kata's confidential VMs: the node
 Carries registry credentials, private CAs and proxy settings from a node into
 the VMs of Kata Containers, on a read-only disk that exists in memory only.
 .
 Contains kata-configdev, the wrapper kata-configdev-qemu, and the unit of an
 agent for nodes without Kubernetes. Nothing is started or configured by
 installing it.""",
    "kata-configdev-guest": """registry configuration for Kata's confidential VMs: the guest
 For images of confidential VMs: initdata-processor verifies what the owner
 wrote and copies what the host gives; imagepuller pulls container images by
 digest for Kata's agent.
 .
 Contains units and an example of an init. Nothing starts them, and no agent
 waits for them, before the builder of the image says so.""",
    "kata-configdev-smoke": """smoke test for images of Kata's confidential VMs
 Boots the kernel and initrd of a guest image in QEMU's emulation with disks as
 Kata attaches them, and says in a minute whether the image works with
 kata-configdev: without KVM, a TEE, Kata or root. For the CI of whoever builds
 guest images.
 .
 Contains configdev-smoke and copies of the programs that it starts.""",
}

# qemu-system-x86 boots the guest, setpriv of util-linux ends it with the program, xz unpacks an
# initrd.
DEPENDS = {"kata-configdev-smoke": "qemu-system-x86, util-linux"}

# Only where the unit is here: the other package's are part of an image, which nobody upgrades while
# it runs. A unit that somebody enabled is disabled before its file goes; nothing else is touched.
# What people wrote below /etc/kata-configdev is theirs, also when the package is purged.
SCRIPTS = {
    "kata-configdev": {
        "prerm": """#!/bin/sh
set -e
if [ "$1" = remove ]; then
    if [ -d /run/systemd/system ]; then
        systemctl disable --now kata-configdev-agent.service || true
    elif [ -x /usr/bin/systemctl ]; then
        systemctl --quiet disable kata-configdev-agent.service || true
    fi
fi
""",
        "postrm": """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
""",
    },
}


def package(release, name, files):
    """Writes the package's file; returns its path."""
    files = joined(files, documents(release, name))
    folder = f"usr/share/doc/{name}"
    files.add(f"{folder}/copyright", _copyright(release))
    files.add(f"{folder}/changelog.gz", gz(_changelog(release, name).encode()))
    control = Tree()
    size = sum(-(-len(content) // 1024) for _, content in files.files.values())
    control.add("DEBIAN/control", _control(release, name, size))
    for script, text in SCRIPTS.get(name, {}).items():
        control.add(f"DEBIAN/{script}", text, 0o755)
    path = release.output / f"{name}_{release.version}_amd64.deb"
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        joined(files, control).write(root, release.time)
        os.utime(root, (release.time, release.time))
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", root, path],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(release.time), "LC_ALL": "C"},
            stdout=subprocess.DEVNULL, check=True)
    path.chmod(0o644)
    return path


def _control(release, name, size):
    depends = f"Depends: {DEPENDS[name]}\n" if name in DEPENDS else ""
    return f"""Package: {name}
Version: {release.version}
Architecture: amd64
Maintainer: {release.publisher["maintainer"]}
Installed-Size: {size}
{depends}Section: admin
Priority: optional
Homepage: {release.publisher["homepage"]}
Description: {DESCRIPTIONS[name]}
"""


def _changelog(release, name):
    return f"""{name} ({release.version}) unstable; urgency=medium

  * Made of commit {release.commit}.
    NEWS.md.gz says what changed for users.

 -- {release.publisher["maintainer"]}  {formatdate(release.time)}
"""


def _copyright(release):
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: kata-configdev
Source: {release.publisher["homepage"]}
Comment: The programs are linked with Rust crates and with glibc: third-party.txt.gz
 beside this file names them, with their licences.

Files: *
Copyright: the authors of kata-configdev
License: Apache-2.0
 On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.
"""
