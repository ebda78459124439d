"""The life of a release on a real API server: deploy/cluster/life.py KUBE_APISERVER PROGRAMS

Helm 3 and Helm 4 each install the chart, upgrade it, are refused, rotate, and remove it again, in a
namespace and on a node of their own. A stand-in runs the pods (node.py says what it imitates): the
installer's own programs, from PROGRAMS, with the mounts and rights of their pods.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml

import image
import policies
import teams
from api_server import ApiServer, Refused, free_port
from node import Node

HERE = Path(__file__).parent
CHART = HERE.parent / "chart/kata-configdev"
HANDLER = "/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp"
QEMU = "/opt/kata/bin/qemu-system-x86_64-snp-experimental"
LABELS = {"katacontainers.io/kata-runtime": "true"}
PASSWORD = "hunter2-password"
REGISTRIES = "kata-configdev-registries"
SECONDS = 60


def require(condition, words, *more):
    if not condition:
        sys.exit("\n".join(["", f"not so: {words}", *map(str, more)]))


def document(name, size=0):
    """A document for one registry, of at least so many bytes."""
    filler = "# filler\n" * (size // 9 + 1)
    return f'[registries."{name}.corp"]\nusername = "robot"\npassword = "{PASSWORD}"\n{filler}'


class Life:
    """One Helm, one namespace, one node."""

    def __init__(self, helm, api, folder, containerfile, programs):
        self.helm_program, self.api, self.folder = helm, api, Path(folder)
        self.image = self.folder / "image"
        self.entry = image.unpack(containerfile, programs, self.image)
        self.port = free_port()
        self.environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig)}
        for name in ("CACHE", "CONFIG", "DATA"):
            self.environment[f"HELM_{name}_HOME"] = str(self.folder / f"helm-{name}")
        self.namespace = None
        self.node = Node(api, self.folder / "node-1", self.image, self.entry, LABELS)
        self.make_kata()

    def make_kata(self):
        """What Kata's own installer leaves on a node."""
        qemu = self.node.root / QEMU.strip("/")
        qemu.parent.mkdir(parents=True)
        qemu.write_text("#!/bin/sh\n")
        qemu.chmod(0o755)
        self.make_handler(HANDLER)

    def make_handler(self, path):
        handler = self.node.root / path.strip("/")
        handler.mkdir(parents=True)
        text = f'[hypervisor.qemu]\npath = "{QEMU}"\n[runtime]\n'
        (handler / f"configuration-{handler.name}.toml").write_text(text)

    def run(self, *command, fails=False, stdin=None):
        """Runs a command, and returns what it said."""
        ended = subprocess.run(command, env=self.environment, input=stdin, text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.check_node()
        require((ended.returncode != 0) == fails, f"{command} ended with {ended.returncode}",
                ended.stdout, self.node.logs, self.node.refusals)
        require(PASSWORD not in ended.stdout, f"no password in what {command[0]} says")
        return ended.stdout

    def helm(self, *arguments, **options):
        timeout = ["--timeout", f"{SECONDS}s"]
        return self.run(self.helm_program, *arguments, "-n", self.namespace, *timeout, **options)

    def kubectl(self, *arguments, **options):
        return self.run(os.environ["KUBECTL"], "-n", self.namespace, *arguments, **options)

    def upgrade(self, *values, **options):
        return self.helm("upgrade", "kata", str(CHART), "--reset-then-reuse-values",
                         *(f"--set={value}" for value in values), **options)

    def check_node(self):
        if self.node.fault:
            raise self.node.fault

    def wait(self, words, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            self.check_node()
            require(time.monotonic() < end, words, self.node.logs, self.node.refusals,
                    list(self.node.files()))
            time.sleep(0.1)

    def get(self, path):
        """An object of the API; None where there is none."""
        try:
            return self.api.call("GET", path)
        except Refused as error:
            require(error.status == 404, f"get {path}", error)
            return None

    def objects(self, kind, group="/api/v1"):
        found = self.api.call("GET", f"{group}/namespaces/{self.namespace}/{kind}")["items"]
        return {one["metadata"]["name"]: one for one in found}

    def ready(self, name="kata-installer"):
        one = self.objects("daemonsets", "/apis/apps/v1")[name]
        status = one["status"]
        return (status.get("observedGeneration") == one["metadata"]["generation"]
                and status.get("updatedNumberScheduled") == status.get("numberReady") == 1)

    def scheduled(self, name="kata-installer"):
        status = self.objects("daemonsets", "/apis/apps/v1")[name]["status"]
        return status["desiredNumberScheduled"]

    def rollout(self, name="kata-installer"):
        self.wait(f"the pod of {name} is ready", lambda: self.ready(name))

    def put_document(self, text, secret="kata-configdev-imagepuller"):
        """The recipe of docs/operations.md."""
        file = self.folder / "imagepuller.toml"
        file.write_text(text)
        made = self.kubectl_secret(secret, file)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=made)

    def kubectl_secret(self, secret, file):
        command = [os.environ["KUBECTL"], "-n", self.namespace, "create", "secret", "generic",
                   secret, f"--from-file={file}", "--dry-run=client", "-o", "yaml"]
        return subprocess.run(command, env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def documents(self):
        """The documents on the node, wherever they are."""
        return [content.decode() for path, content in self.node.files().items()
                if path.endswith("/imagepuller.toml")]

    # The chapters.

    def installs_the_chart(self):
        file = self.folder / "imagepuller.toml"
        file.write_text(document("one"))
        self.kubectl("create", "secret", "generic", "kata-configdev-imagepuller",
                     f"--from-file={file}")
        self.helm("install", "kata", str(CHART), f"--set=health.port={self.port}",
                  "--set=image.repository=registry.example/kata-configdev",
                  "--set=placeholderSecret.create=true")
        # As secretgen's controller fills it.
        full = base64.b64encode(b'{"auths":{"two.corp":{"username":"u","password":"p"}}}').decode()
        self.api.call("PATCH", f"/api/v1/namespaces/{self.namespace}/secrets/{REGISTRIES}",
                      {"data": {".dockerconfigjson": full}}, "application/merge-patch+json")
        self.rollout()
        said = self.documents()
        require(len(said) == 1 and "one.corp" in said[0] and "two.corp" in said[0],
                "the document is on the node, with the credentials of the placeholder", said)

    def upgrades_it(self):
        secrets = self.objects("secrets")[REGISTRIES]["data"]
        self.upgrade()
        self.rollout()
        found = self.objects("secrets")[REGISTRIES]["data"]
        require(found == secrets, "an upgrade leaves the placeholder", found)
        files = self.node.files()
        prefix = f"/opt/kata-configdev/{self.namespace}.kata/"
        owner = json.loads(files[f"{prefix}installed.json"])["owner"]
        require(owner == f"{self.namespace}/kata", "the list of files says whose they are", owner)
        on_disk = [path for path, content in files.items()
                   if PASSWORD.encode() in content and not path.startswith("/run/")]
        require(not on_disk, "no password is on the node's disk", on_disk)
        settings = files[f"{prefix}default/etc/kata-configdev/config.toml"].decode()
        require(f'qemu = "{QEMU}"' in settings, "QEMU is the one of Kata's configuration", settings)
        require(not any("check" in name for name in self.objects("jobs", "/apis/batch/v1")),
                "the job of the check is gone")

    def refuses_what_cannot_work(self):
        before = self.objects("configmaps")["kata-installer"], self.node.files()
        said = self.upgrade("sets.default.settings.quemu=/x", fails=True)
        require("kata-installer-check" in said, "Helm names the job", said)
        log = self.node.logs["kata-installer-check"]
        require("quemu" in log, "the job's log names the setting", log)
        after = self.objects("configmaps")["kata-installer"], self.node.files()
        require(before == after, "nothing changed")
        runtime_class = f"{self.namespace}-class"
        self.api.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", {
            "metadata": {"name": runtime_class}, "handler": "kata-qemu-snp"})
        said = self.upgrade(f"runtimeClasses[0].name={runtime_class}",
                            "runtimeClasses[0].handler=kata-qemu-tdx", fails=True)
        require(all(words in said for words in (runtime_class, "kata-qemu-snp", "kata-qemu-tdx")),
                "both handlers are named", said)
        # The next upgrade does not take over what was refused.
        self.upgrade("sets.default.settings.quemu=null", "runtimeClasses=null")
        self.rollout()

    def turns_a_set_off_and_on(self):
        prefix = f"/opt/kata-configdev/{self.namespace}.kata"
        settings = f"{prefix}/default/etc/kata-configdev/config.toml"
        said = self.upgrade("sets.default.enabled=false")
        require("is OFF" in said, "the notes say that the set is off", said)
        require(f"{prefix}/default/bin/kata-configdev config" in said, "and what shows it", said)
        self.rollout()
        require(b"enabled = false" in self.node.files()[settings], "the wrapper is off")
        self.upgrade("sets.default.enabled=true")
        self.rollout()
        require(b"enabled" not in self.node.files()[settings], "the wrapper is on again")

    def is_watched(self):
        port = free_port()
        peer = r"namespaceSelector.matchLabels.kubernetes\.io/metadata\.name=monitoring"
        self.upgrade("metrics.enabled=true", f"metrics.port={port}", "metrics.rules.enabled=true",
                     "metrics.podMonitor.enabled=true", f"networkPolicy.scrapeFrom[0].{peer}")
        self.rollout()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            told = answer.read().decode()
        require("kata_configdev_ready 1" in told and PASSWORD not in told, "the numbers", told)
        group = "/apis/monitoring.coreos.com/v1"
        (rules,) = self.objects("prometheusrules", group)["kata-installer"]["spec"]["groups"]
        selector = f'kata_configdev_ready{{namespace="{self.namespace}",pod=~"kata-installer-.*"}}'
        require(rules["rules"][0]["expr"] == f"{selector} == 0", "the first alert", rules)
        monitor = self.objects("podmonitors", group)["kata-installer"]["spec"]
        (endpoint,) = monitor["podMetricsEndpoints"]
        daemon_set = self.objects("daemonsets", "/apis/apps/v1")["kata-installer"]
        (one,) = daemon_set["spec"]["template"]["spec"]["containers"]
        ports = {one["name"]: one["containerPort"] for one in one["ports"]}
        require(ports[endpoint["port"]] == port, "the monitor asks where the pod answers", ports)
        self.upgrade("metrics.enabled=false", "metrics.rules.enabled=false",
                     "metrics.podMonitor.enabled=false")
        self.rollout()

    def rotates(self):
        self.put_document(document("three", 300_000))
        self.wait("the new document is on the node",
                  lambda: any("three.corp" in text for text in self.documents()))
        secret = self.objects("secrets")["kata-configdev-imagepuller"]
        require(PASSWORD not in json.dumps(secret["metadata"]), "no copy in an annotation")

    def has_teams(self):
        teams.chapter(self, require, document)

    def has_a_neighbour(self):
        """A second release on the node: with the first one's prefix it is refused, with its own
        each has its own document."""
        handler = HANDLER.replace("snp", "tdx")
        self.make_handler(handler)
        prefix = f"/opt/kata-configdev/{self.namespace}.kata"
        values = ["--set=image.repository=registry.example/kata-configdev",
                  f"--set=health.port={free_port()}", f"--set=sets.default.handlers={{{handler}}}",
                  "--set=sets.default.existingSecret=neighbour"]
        self.helm("install", "tdx", str(CHART), *values, f"--set=prefix={prefix}")
        self.wait("the neighbour is refused",
                  lambda: f"{self.namespace}/kata" in self.node.logs.get("tdx-installer", ""))
        require(len(self.documents()) == 1, "the document of the first", self.documents())
        self.helm("uninstall", "tdx", "--no-hooks")
        said = self.helm("install", "tdx", str(CHART), *values)
        require("--wait" in said, "the notes say that --wait waits for the secret", said)
        self.wait("what is missing has a name",
                  lambda: f"{self.namespace}/neighbour" in self.node.logs.get("tdx-installer", ""))
        require(not self.ready("tdx-installer"), "without its secret the neighbour is not ready")
        self.put_document(document("neighbour"), "neighbour")
        self.rollout("tdx-installer")
        self.rollout()
        both = self.documents()
        require(len(both) == 2 and sum("neighbour.corp" in one for one in both) == 1, "both", both)
        self.helm("uninstall", "tdx")
        require(len(self.documents()) == 1, "the neighbour's document is gone", self.documents())
        self.rollout()

    def rights_of_the_removal(self):
        """Made from the hooks by hand, because they exist only while Helm removes."""
        hooks = self.run(self.helm_program, "get", "hooks", "kata", "-n", self.namespace)
        wanted = [one for one in yaml.safe_load_all(hooks)
                  if one and one["kind"] in ("ServiceAccount", "Role", "RoleBinding")]
        require(len(wanted) == 3, "account, role and binding", hooks)
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
        self.kubectl("apply", "-f", "-", stdin=text)
        account = f"system:serviceaccount:{self.namespace}:kata-installer-cleanup"
        for question, allowed in [
            ("get daemonsets/kata-installer", True), ("patch daemonsets/kata-installer", True),
            ("get daemonsets/other", False), ("patch daemonsets/other", False),
            ("list daemonsets", False), ("create daemonsets", False),
            ("update daemonsets/kata-installer", False),
            ("delete daemonsets/kata-installer", False), ("get secrets", False),
            ("delete rolebindings/kata-installer-cleanup", True),
            ("delete rolebindings/other", False), ("create rolebindings", False),
            ("create pods", False), ("get configmaps", False),
            ("create serviceaccounts/token", False),
        ]:
            words = ["auth", "can-i", *question.split(), f"--as={account}"]
            said = self.kubectl(*words, fails=not allowed)
            require(said.split()[-1] == ("yes" if allowed else "no"), question, said)
        self.kubectl("delete", "-f", "-", stdin=text)

    def says_what_would_stay(self):
        said = self.upgrade("cleanup.enabled=false")
        prefix = f"/opt/kata-configdev/{self.namespace}.kata"
        require(prefix in said and "uninstall=true" in said, "the notes say what stays", said)
        listed = f"{prefix}/installed.json"
        require(listed in said and listed in self.node.files(), "and where it is listed", said)
        require(f"/run/kata-configdev/{self.namespace}.kata" in said, "the documents too", said)
        hooks = self.run(self.helm_program, "get", "hooks", "kata", "-n", self.namespace)
        require("pre-delete" not in hooks, "nothing is removed", hooks)
        self.upgrade("cleanup.enabled=true")

    def fails_while_a_node_is_down(self):
        self.upgrade("cleanup.timeoutSeconds=10")
        self.rollout()
        self.node.down = True
        said = self.helm("uninstall", "kata", fails=True)
        log = self.node.logs["kata-installer-cleanup"]
        require("within 10 s" in log and "--no-hooks" in log, "the job says it", log, said)
        require("kata-installer" in self.objects("daemonsets", "/apis/apps/v1"), "the pods stay")
        # Helm 3.17 leaves account and role, which are no right without the binding.
        bindings = self.objects("rolebindings", "/apis/rbac.authorization.k8s.io/v1")
        require(not bindings, "the right is gone", bindings)
        self.node.down = False

    def fails_without_nodes(self):
        self.node.labels = {}
        self.wait("the DaemonSet is for no node", lambda: not self.scheduled())
        self.helm("uninstall", "kata", fails=True)
        log = self.node.logs["kata-installer-cleanup"]
        require("none has the labels" in log and "--no-hooks" in log, "the job says it", log)
        require("kata-installer" in self.objects("daemonsets", "/apis/apps/v1"), "the pods stay")
        bindings = self.objects("rolebindings", "/apis/rbac.authorization.k8s.io/v1")
        require(not bindings, "the right is gone", bindings)
        self.node.labels = LABELS

    def removes_everything(self):
        self.helm("uninstall", "kata")
        left = [path for path in self.node.files() if "configdev" in path]
        require(not left, "the node is clean", left, self.node.logs)
        require(self.node.root.joinpath(QEMU.strip("/")).exists(), "Kata's own files stay")
        for kind, group in [("daemonsets", "/apis/apps/v1"), ("jobs", "/apis/batch/v1")]:
            require(not self.objects(kind, group), f"no {kind} are left", self.objects(kind, group))
        self.require_no_rights()

    def require_no_rights(self):
        for kind, group in [("roles", "/apis/rbac.authorization.k8s.io/v1"),
                            ("rolebindings", "/apis/rbac.authorization.k8s.io/v1"),
                            ("serviceaccounts", "/api/v1")]:
            left = [name for name in self.objects(kind, group) if name != "default"]
            require(not left, f"no {kind} are left", left)

    def is_forbidden_by_pod_security(self):
        self.namespace += "-restricted"
        # The jobs may run here, the pods that mount directories of the node may not.
        self.api.make_namespace(self.namespace,
                                {"pod-security.kubernetes.io/enforce": "restricted"})
        self.put_document(document("one"))
        said = self.helm("install", "kata", str(CHART), f"--set=health.port={self.port}",
                         "--set=image.repository=registry.example/kata-configdev")
        require("violates PodSecurity" in said, "the notes say what to look for", said)
        self.wait("the pods are refused", lambda: self.node.refusals)
        refused = self.node.refusals[0]
        require("kata-installer: " in refused and "violates PodSecurity" in refused, "why", refused)
        label = said[said.index("kubectl label"):].splitlines()[0].split()
        self.run(os.environ["KUBECTL"], *label[1:], "--overwrite")
        self.rollout()
        self.removes_everything()

    def live(self, namespace):
        self.namespace = namespace
        self.api.make_namespace(namespace, {"pod-security.kubernetes.io/enforce": "privileged"})
        for chapter in [
            self.installs_the_chart, self.upgrades_it, self.refuses_what_cannot_work,
            self.turns_a_set_off_and_on, self.is_watched, self.rotates, self.has_teams,
            self.has_a_neighbour, self.rights_of_the_removal, self.says_what_would_stay,
            self.fails_while_a_node_is_down, self.fails_without_nodes,
            self.removes_everything, self.is_forbidden_by_pod_security,
        ]:
            started = time.monotonic()
            chapter()
            words = chapter.__name__.replace("_", " ")
            print(f"{namespace}: {words} ({time.monotonic() - started:.0f} s)", flush=True)


def make_monitoring(api):
    """The kinds of the Prometheus operator, of any content."""
    for singular in ("podmonitor", "prometheusrule"):
        kind = {"podmonitor": "PodMonitor", "prometheusrule": "PrometheusRule"}[singular]
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "metadata": {"name": f"{singular}s.monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                     "names": {"plural": f"{singular}s", "singular": singular, "kind": kind},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}}]}})


def main():
    program, programs = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="configdev-cluster-") as folder:
        api = ApiServer(program, folder)
        try:
            make_monitoring(api)
            policies.check(api, os.environ["HELM4"])
            for name in ("HELM3", "HELM4"):
                life = Life(os.environ[name], api, Path(folder) / name,
                            HERE.parent / "Containerfile", programs)
                try:
                    life.live(name.lower())
                finally:
                    life.node.stop()
        finally:
            api.stop()


main()
