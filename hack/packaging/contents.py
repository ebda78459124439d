"""What is in which package, and where."""

from pathlib import Path

from tree import Tree, gz

UNITS = "usr/lib/systemd/system"
# Where the shells of Debian look.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/{}",
    "fish": "share/fish/vendor_completions.d/{}.fish",
    "zsh": "share/zsh/vendor-completions/_{}",
}
HOST = ["kata-configdev", "kata-configdev-qemu"]
GUEST = ["imagepuller", "initdata-processor"]
SMOKE = ["configdev-smoke"]
# What configdev-smoke starts or puts into a guest. Copies, in a folder where its command.rs looks:
# a machine of a CI needs neither the node's package nor the guest's.
OF_SMOKE = ["configdev-smoke-agent", "kata-configdev-qemu"]
# The paths that deploy/host names are those of an installation by hand.
BY_HAND = "/usr/local/bin/"


def host(release, prefix="usr"):
    """The node: programs, pages, completions, the unit, examples. Nothing below /etc."""
    files = _programs(release, HOST, prefix)
    place = "/" + prefix + "/bin/"
    unit = Path("deploy/host/kata-configdev-agent.service").read_text(encoding="utf-8")
    files.add(f"{prefix}/lib/systemd/system/kata-configdev-agent.service",
              unit.replace(BY_HAND, place))
    for example in ("agent.toml", "node.toml"):
        text = (Path("deploy/host") / example).read_text(encoding="utf-8")
        files.add(f"{prefix}/share/doc/kata-configdev/examples/{example}",
                  text.replace(BY_HAND, place))
    return files


def guest(release):
    """A guest image: programs, pages, completions and units, none of which anything starts. What
    makes an agent wait for them is beside them, as are the example of an init and the scripts that
    put all of it into an image."""
    files = _programs(release, GUEST, "usr")
    for unit in sorted(Path("deploy/guest/systemd").iterdir()):
        if unit.name == "kata-agent.service.d":
            continue
        _add(files, f"{UNITS}/{unit.name}", unit)
    _add(files, f"{UNITS}/imagepuller-hub.service",
         Path("deploy/guest/stock-agent/imagepuller-hub.service"))
    share = "usr/share/kata-configdev-guest"
    for file in sorted(Path("deploy/guest").rglob("*")):
        if file.is_file():
            mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            files.add_file(f"{share}/{file.relative_to('deploy/guest')}", file, mode)
    return files


def smoke(release):
    """Whoever builds images: the smoke test, its page and completions, and the programs of it."""
    files = _programs(release, SMOKE, "usr")
    for name in OF_SMOKE:
        files.add_file(f"usr/libexec/kata-configdev/{name}", release.programs / name, 0o755)
    return files


def guest_components(release):
    """What Kata's osbuilder unpacks onto a root directory, for a stock agent under systemd: the
    programs and the units, with the drop-ins that make the agent wait for them, and licences."""
    files = documents(release, "kata-configdev-guest")
    for name in GUEST:
        files.add_file(f"usr/bin/{name}", release.programs / name, 0o755)
    for folder in ("systemd", "stock-agent"):
        files.add_folder(UNITS, f"deploy/guest/{folder}")
    return files


def chart():
    """The Helm chart, in the layout of `helm package`."""
    files = Tree()
    files.add_folder("kata-configdev", "deploy/chart/kata-configdev")
    return files


def documents(release, name, prefix="usr"):
    """The licences, which whoever gets the programs has to get too, and what changed."""
    files = Tree()
    folder = f"{prefix}/share/doc/{name}"
    files.add(f"{folder}/third-party.txt.gz", gz(release.licences))
    files.add(f"{folder}/rust-library.html.gz", gz(release.rust_library))
    files.add(f"{folder}/NEWS.md.gz", gz(Path("CHANGELOG.md").read_bytes()))
    return files


def joined(*trees):
    """All of them as one."""
    whole = Tree()
    for tree in trees:
        for path, (mode, content) in tree.files.items():
            whole.add(path, content, mode)
        whole.links.update(tree.links)
    return whole


def _programs(release, names, prefix):
    files = Tree()
    for name in names:
        files.add_file(f"{prefix}/bin/{name}", release.programs / name, 0o755)
    for page in sorted((release.pages / "man/man1").iterdir()):
        if any(page.name.startswith((f"{name}.", f"{name}-")) for name in names):
            files.add(f"{prefix}/share/man/man1/{page.name}.gz", gz(page.read_bytes()))
    for shell, place in COMPLETIONS.items():
        for name in names:
            text = release.pages / "completions" / shell / name
            if text.exists():
                files.add_file(f"{prefix}/{place.format(name)}", text)
    return files


def _add(files, path, source):
    if source.is_dir():
        files.add_folder(path, source)
    else:
        files.add_file(path, source)
