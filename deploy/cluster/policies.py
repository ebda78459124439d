"""The chart's admission policies on a real API server: which pods may name which document."""
import subprocess
import time
from pathlib import Path

import yaml

from api_server import Refused

HERE = Path(__file__).parent
CHART, VALUES = HERE.parent / "chart/kata-configdev", HERE.parent / "chart/cases/teams.yaml"
GROUP = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
ANNOTATION = "io.katacontainers.config.runtime.imagepuller_"
SHARED, OWN = "/etc/kata-configdev/documents", "/run/kata-configdev/policy.kata/default/documents"
TENANTS = "/etc/kata-configdev/tenants"
SECONDS = 60

# Of a pod in the namespace "team": the value, and whether it is allowed.
DOCUMENTS = [
    (None, True), ("", True), (f"{SHARED}/team.toml", True), (f"{SHARED}/team.ci.toml", True),
    (f"{OWN}/team.toml", True), (f"{TENANTS}/team/any/name", True),
    (f"{SHARED}/team-a.toml", False), (f"{SHARED}/team-a.ci.toml", False),
    (f"{SHARED}/team", False), (f"{SHARED}/team.", False), (f"{SHARED}/steam.toml", False),
    (f"{SHARED}/team.toml/../team-a.toml", False), (f"{SHARED}/../documents/team.toml", False),
    (f"{SHARED}/team./team-a.toml", False), (f"{SHARED}//team.toml", False), (SHARED, False),
    ("team.toml", False), ("/etc/shadow", False), (f"{SHARED}x/team.toml", False), (" ", False),
    (f"{TENANTS}/team-a/x", False), (f"{TENANTS}/team/../team-a/x", False),
    (f"{TENANTS}/{{namespace}}/x", False), (f"{TENANTS}/team", False),
]


def pod(name, annotations):
    """A pod with one container."""
    spec = {"containers": [{"name": "c", "image": "a.corp/x"}]}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


class Policies:
    """The API server, and what went wrong."""

    def __init__(self, api):
        self.api, self.wrong = api, []

    def install(self, helm):
        """Makes the policies as the chart has them, and waits until they work. A pod is older."""
        self.api.make_namespace("team")
        self.make("early", {f"{ANNOTATION}config": "/x"}, dry="")
        values = [f"--values={VALUES}", "--set-json",
                  f'sets.default.settings.annotation-allow=["{SHARED}","{TENANTS}/{{namespace}}"]']
        told = subprocess.run([helm, "template", "kata", CHART, "-n", "policy", *values],
                              check=True, text=True, stdout=subprocess.PIPE).stdout
        for one in yaml.safe_load_all(told):
            if one and one["kind"] in PLURALS:
                self.api.call("POST", f"{GROUP}/{PLURALS[one['kind']]}", one)
        end = time.monotonic() + SECONDS
        while not self.refusal({f"{ANNOTATION}config": "/x"}):
            if time.monotonic() > end:
                raise SystemExit("the policies do nothing")
            time.sleep(0.2)

    def make(self, name, annotations, dry="?dryRun=All"):
        return self.api.call("POST", f"/api/v1/namespaces/team/pods{dry}", pod(name, annotations))

    def refusal(self, annotations):
        """Why a pod is refused; None where it is not."""
        try:
            self.make("one", annotations)
            return None
        except Refused as error:
            return str(error)

    def expect(self, found, wanted, what):
        if found != wanted:
            self.wrong.append(f"{what}: {found}")

    def documents(self):
        """The annotation with a document."""
        for value, allowed in DOCUMENTS:
            refusal = self.refusal({} if value is None else {f"{ANNOTATION}config": value})
            self.expect(refusal is None, allowed, f"document {value!r} ({refusal})")
        words = self.refusal({f"{ANNOTATION}config": "/x"})
        self.expect(f"{SHARED}/team.toml" in words and f"{TENANTS}/team/NAME" in words, True, words)
        self.other_ways()
        # What was there before stays. A later change is one.
        path = "/api/v1/namespaces/team/pods/early"
        for key, value, allowed in [
            ("other", "x", True), (f"{ANNOTATION}config", "/y", False),
            (f"{ANNOTATION}config", f"{SHARED}/team.toml", True),
            (f"{ANNOTATION}config", "/x", False), (f"{ANNOTATION}config", "", True),
            (f"{ANNOTATION}config", None, True), (f"{ANNOTATION}config", "/y", False),
        ]:
            for at in (path, f"{path}/status"):
                try:
                    self.api.call("PATCH", at, {"metadata": {"annotations": {key: value}}},
                                  "application/merge-patch+json")
                    self.expect(True, allowed, f"{at}: {key} to {value!r}")
                except Refused as error:
                    self.expect(False, allowed, f"{at}: {key} to {value!r}: {error}")

    def other_ways(self):
        """A label is an annotation for CRI-O, and a binding's annotations become the pod's."""
        labelled = pod("one", {})
        labelled["metadata"]["labels"] = {f"{ANNOTATION}config": ""}
        binding = {"metadata": {"name": "early", "annotations": {f"{ANNOTATION}config": "/y"}},
                   "target": {"kind": "Node", "name": "none"}}
        for path, one in [("pods?dryRun=All", labelled),
                          ("pods/early/binding?dryRun=All", binding),
                          ("bindings?dryRun=All", binding)]:
            try:
                self.api.call("POST", f"/api/v1/namespaces/team/{path}", one)
                self.wrong.append(f"{path} is allowed")
            except Refused as error:
                self.expect("imagepuller_config" in str(error), True, f"{path}: {error}")


def check(api, helm):
    """Ends the program where a policy does something else."""
    policies = Policies(api)
    policies.install(helm)
    policies.documents()
    if policies.wrong:
        raise SystemExit("\n".join(["", "the policies are wrong about", *policies.wrong]))
    print(f"policies: {len(DOCUMENTS)} documents", flush=True)
