"""One node of a cluster: stands in for kubelet, DaemonSet controller and Job controller.

It does what they do with the pods of the chart, and no more: a pod for each Job and for each
DaemonSet whose labels the node has, volumes, one container, HTTP and exec probes, the status of
Jobs and DaemonSets. While it is `down`, the pods of DaemonSets are neither changed nor ready; Jobs
run, as on another node. It does not restart containers, keeps no time limits, and makes no events.
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import container
from api_server import Refused
from volumes import Volumes

BATCH, APPS = "/apis/batch/v1", "/apis/apps/v1"
PAUSE_SECONDS = 0.2


class Pod:
    """A pod of an owner, its container running."""

    def __init__(self, node, owner, template):
        self.node, self.spec = node, template["spec"]
        self.digest = digest(template)
        self.namespace = owner["metadata"]["namespace"]
        self.name = f"{owner['metadata']['name']}-{uuid.uuid4().hex[:5]}"
        self.folder = node.folder / "pods" / self.name
        metadata = {**template.get("metadata", {}), "name": self.name, "ownerReferences": [{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True,
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]}
        # Here Pod Security and the service account's token come in.
        made = node.api.call("POST", self.path(), {
            "metadata": metadata, "spec": {**self.spec, "nodeName": node.name}})
        self.spec = made["spec"]
        self.volumes = Volumes(node.api, node.root, self.folder / "volumes", made)
        self.volumes.sync()
        self.process = self._start()
        self.ready = False

    def path(self, *parts):
        return "/".join([f"/api/v1/namespaces/{self.namespace}/pods", *parts])

    def _start(self):
        (one,) = self.spec["containers"]
        root = self.folder / "root"
        shutil.copytree(self.node.image, root, copy_function=os.link)
        sources = {volume["name"]: self.volumes.source(volume)
                   for volume in self.spec.get("volumes", [])}
        mounts = sorted(
            ((sources[mount["name"]], mount["mountPath"], mount.get("readOnly", False))
             for mount in one.get("volumeMounts", [])), key=lambda mount: mount[1])
        command = [*one.get("command", self.node.entry), *one.get("args", [])]
        environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "PATH": "/usr/local/bin",
                       "KUBERNETES_SERVICE_PORT": str(self.node.api.port)}
        with open(self.folder / "log", "wb") as log:
            return container.start(root, command, self.spec, one, mounts, environment, log)

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def probe(self):
        """Asks the readiness probe, and the startup probe before it."""
        (one,) = self.spec["containers"]
        probes = [one[name] for name in ("startupProbe", "readinessProbe") if name in one]
        ports = {port["name"]: port["containerPort"] for port in one.get("ports", [])}
        self.ready = self.process.poll() is None and all(
            self._answers(probe, ports) for probe in probes)

    def _answers(self, probe, ports):
        if "exec" in probe:
            return container.run_inside(self.process, probe["exec"]["command"])
        asked = probe["httpGet"]
        port = ports.get(asked["port"], asked["port"])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{asked['path']}", timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def end(self):
        """Ends the container as the kubelet does, and deletes the pod."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        try:
            self.node.api.call("DELETE", f"{self.path(self.name)}?gracePeriodSeconds=0")
        except Refused as error:
            if error.status != 404:
                raise


class Node:
    """The node and its thread. `root` is the node's file system."""

    def __init__(self, api, folder, image, entry, labels):
        self.api, self.folder, self.image, self.entry = api, Path(folder), image, entry
        self.name, self.labels, self.root = "node-1", labels, Path(folder) / "node"
        self.root.mkdir(parents=True)
        self.pods, self.logs, self.refusals = {}, {}, []
        self.fault, self.running, self.down = None, True, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while self.running:
            try:
                self._step()
            except Exception as error:  # pylint: disable=broad-except
                # Told by the next wait of a test.
                self.fault = error
                raise
            time.sleep(PAUSE_SECONDS)

    def stop(self):
        self.running = False
        self.thread.join()
        for pod in self.pods.values():
            pod.end()

    def _step(self):
        jobs = self.api.call("GET", f"{BATCH}/jobs")["items"]
        sets = self.api.call("GET", f"{APPS}/daemonsets")["items"]
        for one in jobs:
            one.update(apiVersion="batch/v1", kind="Job")
        for one in sets:
            one.update(apiVersion="apps/v1", kind="DaemonSet")
        there = {one["metadata"]["uid"] for one in jobs + sets}
        for uid in [uid for uid in self.pods if uid not in there]:
            self.pods.pop(uid).end()
        for job in jobs:
            if not job["status"].get("conditions"):
                self._job(job)
        for daemon_set in sets:
            self._daemon_set(daemon_set)

    def _pod(self, owner):
        """The pod of an owner, made if there is none; None where the API server refuses it."""
        uid, template = owner["metadata"]["uid"], owner["spec"]["template"]
        if uid not in self.pods:
            try:
                self.pods[uid] = Pod(self, owner, template)
            except Refused as error:
                self.refusals.append(f"{owner['metadata']['name']}: {error}")
                return None
        pod = self.pods[uid]
        pod.volumes.sync()
        self.logs[owner["metadata"]["name"]] = pod.log()
        return pod

    def _job(self, job):
        pod = self._pod(job)
        if pod is None or pod.process.poll() is None:
            return
        self.logs[job["metadata"]["name"]] = pod.log()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended_well = pod.process.returncode == 0
        kinds = ["SuccessCriteriaMet", "Complete"] if ended_well else ["FailureTarget", "Failed"]
        status = {"startTime": now, "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now,
             "reason": "Ended", "message": "the container ended"} for kind in kinds]}
        if ended_well:
            status.update(completionTime=now, succeeded=1)
        else:
            status.update(failed=1)
        self._write_status(f"{BATCH}/namespaces", "jobs", job, status)

    def _daemon_set(self, daemon_set):
        spec, uid = daemon_set["spec"], daemon_set["metadata"]["uid"]
        selector = spec["template"]["spec"].get("nodeSelector", {})
        wanted = selector.items() <= self.labels.items()
        old = self.pods.get(uid)
        rolls = spec["updateStrategy"]["type"] == "RollingUpdate" and not self.down
        if old and (not wanted or (rolls and old.digest != digest(spec["template"]))):
            self.pods.pop(uid).end()
        pod = self._pod(daemon_set) if wanted else None
        if pod:
            pod.probe()
        changed = pod is not None and pod.digest == digest(spec["template"])
        ready = int(pod is not None and pod.ready and not self.down)
        self._write_status(f"{APPS}/namespaces", "daemonsets", daemon_set, {
            "observedGeneration": daemon_set["metadata"]["generation"],
            "desiredNumberScheduled": int(wanted), "currentNumberScheduled": int(pod is not None),
            "updatedNumberScheduled": int(changed), "numberMisscheduled": 0,
            "numberReady": ready, "numberAvailable": ready, "numberUnavailable": wanted - ready})

    def _write_status(self, below, kind, owner, status):
        metadata = owner["metadata"]
        path = f"{below}/{metadata['namespace']}/{kind}/{metadata['name']}/status"
        try:
            self.api.call("PATCH", path, {"status": status}, "application/merge-patch+json")
        except Refused as error:
            # Deleted meanwhile.
            if error.status != 404:
                raise

    def files(self):
        """What is on the node: path, and content where it is a file."""
        return {f"/{path.relative_to(self.root)}": path.read_bytes()
                for path in sorted(self.root.rglob("*")) if path.is_file()}


def digest(template):
    """What tells a DaemonSet's pods from those before a change."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()
