"""What the programs are made of, asked of cargo: an inventory (CycloneDX) and the licences.

A script instead of cargo-cyclonedx and cargo-about: both want to be built from source, and both
know no more than the two commands of cargo that are asked here.
"""

import json
import re
import subprocess
import time as clock
import tomllib
import uuid
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import quote

TARGET = "x86_64-unknown-linux-gnu"
# Whose programs are published.
PROGRAMS = ["kata-configdev", "fleet-removal", "initdata-processor", "imagepuller",
            "configdev-smoke"]
NOTICE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|COPYRIGHT|UNLICENSE)([-._].*)?$", re.IGNORECASE)
# Sources that programs are linked with and that are no crate, and where Debian and rustup say what
# they are under.
LINKED = [
    ("glibc", "libc6-dev", "LGPL-2.1-or-later", "/usr/share/doc/libc6-dev/copyright"),
    ("libgcc", "libgcc-12-dev", "GPL-3.0-or-later WITH GCC-exception-3.1",
     "/usr/share/doc/libgcc-12-dev/copyright"),
]


def _output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


class Crates:
    """The packages of the programs: those that they contain, and those that only build them."""

    def __init__(self):
        metadata = json.loads(_output(
            "cargo", "metadata", "--locked", "--offline", "--format-version=1",
            f"--filter-platform={TARGET}"))
        self.linked = self._tree("normal,no-proc-macro")
        self.building = self._tree("normal,build") - self.linked
        wanted = self.linked | self.building
        named = {(each["name"], each["version"]): each for each in metadata["packages"]}
        self.packages = {name: named[name] for name in sorted(wanted)}
        names = {each["id"]: (each["name"], each["version"]) for each in metadata["packages"]}
        self.uses = {
            names[node["id"]]: sorted({names[used["pkg"]] for used in node["deps"]
                                       if not all(kind["kind"] == "dev"
                                                  for kind in used["dep_kinds"])} & wanted)
            for node in metadata["resolve"]["nodes"] if names[node["id"]] in wanted}
        lock = tomllib.loads(Path("Cargo.lock").read_text(encoding="utf-8"))
        self.checksums = {(each["name"], each["version"]): each.get("checksum")
                          for each in lock["package"]}

    @staticmethod
    def _tree(edges):
        lines = _output(
            "cargo", "tree", "--locked", "--offline", f"--target={TARGET}", f"--edges={edges}",
            "--prefix=none", "--format={p}", *[f"--package={name}" for name in PROGRAMS])
        words = [line.split() for line in lines.splitlines() if line]
        return {(name, version.removeprefix("v")) for name, version, *_ in words}

    def inventory(self, release):
        """CycloneDX 1.5 as JSON."""
        components, programs = [], []
        for key, package in self.packages.items():
            component = {
                "type": "library",
                "bom-ref": _reference(key),
                "name": key[0],
                "version": key[1],
                # "excluded" is CycloneDX' word for what a build needs and a program does not have.
                "scope": "required" if key in self.linked else "excluded",
                "licenses": [{"expression": re.sub(" */ *", " OR ", package["license"])}],
            }
            if self.checksums.get(key):
                component["purl"] = _reference(key)
                component["hashes"] = [{"alg": "SHA-256", "content": self.checksums[key]}]
            components.append(component)
            if key[0] in PROGRAMS:
                programs.append(_reference(key))
        for name, debian, licence, _ in LINKED:
            version = _output("dpkg-query", "-W", "-f", "${Version}", debian)
            package_url = _package_url("deb/debian", debian, version)
            components.append({
                "type": "library", "bom-ref": package_url, "name": name,
                "version": version, "scope": "required", "purl": package_url,
                "licenses": [{"expression": licence}]})
        compiler = _output("rustc", "--version").split()[1]
        components.append({
            "type": "library", "bom-ref": f"rust-std@{compiler}", "name": "rust-std",
            "version": compiler, "scope": "required",
            "licenses": [{"expression": "MIT OR Apache-2.0"}]})
        # Every program is linked with what is no crate.
        linked = [each["bom-ref"] for each in components[len(self.packages):]]
        publisher, address = parseaddr(release.publisher["maintainer"])
        seed = uuid.uuid5(uuid.NAMESPACE_URL, f"kata-configdev {release.commit} {release.name}")
        created = clock.strftime("%Y-%m-%dT%H:%M:%SZ", clock.gmtime(release.time))
        return json.dumps({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "serialNumber": seed.urn,
            "version": 1,
            "metadata": {
                "timestamp": created,
                "supplier": {"name": publisher, "url": [release.publisher["homepage"]],
                             "contact": [{"email": address}]},
                "component": {"type": "application", "name": "kata-configdev",
                              "bom-ref": "kata-configdev", "version": release.name,
                              "licenses": [{"expression": "Apache-2.0"}]},
            },
            "components": components,
            "dependencies": [
                {"ref": "kata-configdev", "dependsOn": programs + linked},
                *({"ref": _reference(key), "dependsOn": [_reference(used) for used in uses]}
                  for key, uses in sorted(self.uses.items())),
                *({"ref": name} for name in linked)],
        }, indent=1, ensure_ascii=False) + "\n"

    def licences(self):
        """The licences of all that the programs contain, each text once, with who it is of."""
        texts, silent, lines = {}, [], []
        for key in sorted(self.linked):
            package = self.packages[key]
            if package["source"] is None:
                continue
            name = " ".join(key)
            lines.append(f"{name}: {package['license']}")
            found = notices(Path(package["manifest_path"]).parent)
            for text in found:
                texts.setdefault(text, []).append(name)
            if not found:
                silent.append(name)
        for name, debian, licence, path in LINKED:
            lines.append(f"{name} (Debian's {debian}): {licence}")
            text = Path(path).read_text(encoding="utf-8", errors="replace").strip()
            texts.setdefault(text, []).append(name)
        lines.append("rust-std: MIT OR Apache-2.0; its parts: rust-library.html")
        parts = [
            "What the programs of kata-configdev contain, and under which licences.\n",
            "The programs are linked with glibc, whose licence lets everybody link them with\n"
            "another one: from the sources, with hack/build --release.\n",
            "\n".join(lines) + "\n",
            "Without a text of its own in its package: " + (", ".join(silent) or "none") + ".\n"]
        for text, names in texts.items():
            parts.append(f"{'=' * 80}\n{', '.join(names)}\n{'-' * 80}\n{text}\n")
        return "\n".join(parts)


def rust_library():
    """The licences of what Rust's standard library contains, as they come with the compiler."""
    sysroot = _output("rustc", "--print", "sysroot").strip()
    return (Path(sysroot) / "share/doc/rust/COPYRIGHT-library.html").read_bytes()


def notices(folder):
    """The texts in a package's folder, and in those of the sources that it brings along."""
    files = [path for depth in ("*", "*/*") for path in sorted(folder.glob(depth))
             if NOTICE.match(path.name) and path.is_file()]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    return list(dict.fromkeys(text.replace("\r\n", "\n").strip() for text in texts))


def _reference(key):
    return _package_url("cargo", *key)


def _package_url(kind, name, version):
    """As the specification of package URLs writes it: also a plus is escaped."""
    return f"pkg:{kind}/{quote(name, safe='')}@{quote(version, safe=':')}"
