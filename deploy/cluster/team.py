"""A second team on a node: deploy/cluster/team.py HELM PROGRAMS

One line of values and one secret, through the rendered manifests: a stand-in for the kubelet mounts
what the DaemonSet asks for, the installer fills the node, and the wrapper gives the pods of each
team their own document. A further team comes by a key of the whole secret, and no manifest changes.
Needs root, for mounts in namespaces of its own.
"""
import base64
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import container
import image
from api_server import Refused
from volumes import Volumes

HERE = Path(__file__).parent
CHART = HERE.parent / "chart/kata-configdev"
HANDLER = "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp"
QEMU = "opt/kata/bin/qemu-system-x86_64"
RELEASE = "kata-system.kata"
DOCUMENTS = f"run/kata-configdev/{RELEASE}/default/namespaces"
IMAGES = "run/kata-containers/shared/initdata"
VALUES = ["--set=image.repository=registry.example/kata-configdev", "--set=engine=containerd",
          "--set=sets.default.namespacesSecret=teams"]


def require(condition, words, *more):
    if not condition:
        sys.exit("\n".join(["", f"not so: {words}", *map(str, more)]))


def team(name):
    """The value for a team: one line."""
    return f"--set=sets.default.namespaces.{name}.existingSecret={name}-registries"


def document(name):
    return f'[registries."{name}.corp"]\nusername = "robot"\npassword = "of-{name}"\n'


class Secrets(dict):
    """The API server, as far as volumes ask it: secrets, and the ConfigMap of the release."""

    def call(self, _method, path):
        found = self.get(path.split("/", 5)[5])
        if found is None:
            raise Refused(404, path)
        return {"data": found}

    def put(self, name, **keys):
        self[f"secrets/{name}"] = {key: base64.b64encode(text.encode()).decode()
                                   for key, text in keys.items()}


class Fleet:
    """One node, one release."""

    def __init__(self, helm, programs, folder):
        self.helm, self.folder = helm, Path(folder)
        self.image, self.node = self.folder / "image", self.folder / "node"
        image.unpack(HERE.parent / "Containerfile", programs, self.image)
        self.secrets = Secrets()
        for path in (HANDLER, QEMU):
            (self.node / path).parent.mkdir(parents=True, exist_ok=True)
        (self.node / HANDLER).mkdir()
        (self.node / HANDLER / "configuration-qemu-snp.toml").write_text(
            f'[hypervisor.qemu]\npath = "/{QEMU}"\n')
        # It ends at once, and is as static as a root without anything else needs it.
        shutil.copy2(self.image / "usr/local/bin/kata-configdev", self.node / QEMU)

    def render(self, *values):
        """The objects of the release, by kind and name."""
        told = subprocess.run([self.helm, "template", "kata", str(CHART), "-n", "kata-system",
                               *VALUES, *values], check=True, text=True, stdout=subprocess.PIPE)
        documents = [one for one in yaml.safe_load_all(told.stdout) if one]
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    def roll(self, objects):
        """The pod of the DaemonSet, anew: one pass of the installer. Gives exit code and log."""
        for (kind, name), one in objects.items():
            if kind == "ConfigMap":
                self.secrets[f"configmaps/{name}"] = one["data"]
        template = objects["DaemonSet", "kata-installer"]["spec"]["template"]
        pod = {"metadata": {"namespace": "kata-system"}, "spec": template["spec"]}
        self.volumes = Volumes(self.secrets, self.node, self.folder / "volumes", pod)
        self.volumes.sync()
        (one,) = template["spec"]["containers"]
        sources = {volume["name"]: self.volumes.source(volume)
                   for volume in template["spec"]["volumes"]}
        mounts = sorted(((sources[mount["name"]], mount["mountPath"], mount.get("readOnly", False))
                         for mount in one["volumeMounts"]), key=lambda mount: mount[1])
        command = ["/usr/local/bin/kata-configdev", "install", "--config=/config/installer.toml"]
        with open(self.folder / "log", "wb") as log:
            code = container.start(self.image, command, template["spec"], one, mounts, {}, log)
            code = code.wait(60)
        return code, (self.folder / "log").read_text()

    def documents(self):
        """The documents of namespaces on the node: name, and what tells whether it was written."""
        directory = self.node / DOCUMENTS
        found = sorted(directory.iterdir()) if directory.is_dir() else []
        return {path.name: (path.read_text(), path.stat().st_ino) for path in found}

    def sandbox(self, namespace, number):
        """Starts a sandbox for a pod of the namespace, as containerd and the shim do. Gives what
        the wrapper said, and the document on the sandbox's disk."""
        identity = f"{number:064x}"
        bundle = Path("run/containerd/io.containerd.runtime.v2.task/k8s.io") / identity
        (self.node / bundle).mkdir(parents=True)
        (self.node / bundle / "config.json").write_text(json.dumps({
            "ociVersion": "1.1.0", "annotations": {
                "io.kubernetes.cri.container-type": "sandbox",
                "io.kubernetes.cri.sandbox-id": identity,
                "io.kubernetes.cri.sandbox-namespace": namespace}}))

        drop_in = (self.node / HANDLER / "config.d/zz-kata-configdev.toml").read_text()
        wrapper = drop_in.split('path = "')[1].split('"')[0]
        command = [wrapper, "-name", f"sandbox-{identity},debug-threads=on", "-machine", "q35",
                   "-pidfile", f"/run/{identity}.pid"]
        with open(self.folder / "log", "wb") as log:
            container.start(self.node, command, {}, {}, [("/proc", "/proc", False)], {}, log,
                            Path("/") / bundle).wait(60)
        said = (self.folder / "log").read_text()
        disk = self.node / IMAGES / identity / "imagepuller.img"
        if not disk.exists():
            return said, None
        content = disk.read_bytes()
        length = int.from_bytes(content[8:16], "little")
        return said, gzip.decompress(content[16:16 + length]).decode()


def installs_and_adds(fleet):
    """The installer's part."""
    fleet.secrets.put("team-a-registries", **{"imagepuller.toml": document("a")})
    first = fleet.render(team("team-a"))
    code, log = fleet.roll(first)
    require(code == 0, "the first team is installed", log)
    before = fleet.documents()
    require(list(before) == ["team-a.toml"], "the document of the first team", before, log)

    # One secret, and one line of values.
    fleet.secrets.put("team-b-registries", **{"imagepuller.toml": document("b")})
    second = fleet.render(team("team-a"), team("team-b"))
    changed = {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    require(changed == {("ConfigMap", "kata-installer"), ("DaemonSet", "kata-installer")},
            "nothing but the installer and its configuration changes", changed)
    code, log = fleet.roll(second)
    require(code == 0, "the second team is installed", log)
    after = fleet.documents()
    require(after["team-b.toml"][0] == document("b"), "the document of the second team", after)
    require(after["team-a.toml"] == before["team-a.toml"], "the first team's is as it was", after)

    # A key of the secret of all teams: nothing rolls.
    fleet.secrets.put("teams", **{"team-c.toml": document("c")})
    require(fleet.render(team("team-a"), team("team-b")) == second, "no manifest changes")
    code, log = fleet.roll(second)
    require(code == 0 and set(fleet.documents()) == {f"team-{one}.toml" for one in "abc"},
            "the third team is installed", log)
    require("of-" not in log, "no password in the log", log)


def gives_each_its_own(fleet):
    """The wrapper's part."""
    for number, (namespace, own) in enumerate([("team-a", "a"), ("team-b", "b"), ("team-c", "c"),
                                               ("team-b", "b")], 1):
        said, found = fleet.sandbox(namespace, number)
        require(found == document(own), f"a pod of {namespace} gets its own document", said, found)
    # The fallback: nobody else gets anything.
    said, found = fleet.sandbox("default", 9)
    require(found is None or "node-error" in found, "a pod of another namespace", said, found)
    require("of-" not in said, "no password in what the wrapper says", said)
    # As it is while the documents are written for the first time.
    (fleet.node / DOCUMENTS).chmod(0o720)
    said, found = fleet.sandbox("default", 10)
    require(found is None and DOCUMENTS in said, "nobody falls back yet", said, found)


def loses_one(fleet):
    """The installer again."""
    code, log = fleet.roll(fleet.render(team("team-b")))
    require(code == 0 and set(fleet.documents()) == {"team-b.toml", "team-c.toml"},
            "the document of a team that is gone is gone", log, fleet.documents())


def main():
    helm, programs = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(helm, programs, folder)
        for chapter in [installs_and_adds, gives_each_its_own, loses_one]:
            chapter(fleet)
            print(f"{chapter.__name__.replace('_', ' ')}")


main()
