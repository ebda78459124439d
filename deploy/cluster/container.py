"""One container: a process in a root of its own, with mounts and rights as its pod asks."""
import ctypes
import os
import subprocess
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    0x20000, 1, 32, 4096, 16384, 1 << 18)
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def _mount(source, target, flags):
    _check(LIBC.mount(os.fsencode(source), os.fsencode(target), None, flags, None), str(target))


def start(root, command, pod, container, mounts, environment, log, directory="/"):
    """Starts `command` in `directory`. `mounts` are (source, path in the container, whether
    read-only).

    Of the security context it does the users, "capabilities: drop: [ALL]" and no new privileges,
    and a root that is read-only; seccomp and SELinux it leaves to the real runtime."""
    own = container.get("securityContext", {})
    context = {**pod.get("securityContext", {}), **own}
    user, group = context.get("runAsUser", 0), context.get("runAsGroup", 0)
    if context.get("runAsNonRoot") and user == 0:
        raise ValueError("runAsNonRoot, and the user is root")

    # Before the process is another: no capability is left after its exec.
    def enter():
        _check(LIBC.unshare(CLONE_NEWNS), "unshare")
        _mount("none", "/", MS_REC | MS_PRIVATE)
        _mount(root, root, MS_BIND)
        for source, path, read_only in mounts:
            target = Path(root) / path.strip("/")
            target.mkdir(parents=True, exist_ok=True)
            _mount(source, target, MS_BIND)
            if read_only:
                _mount("none", target, MS_REMOUNT | MS_BIND | MS_RDONLY)
        if own.get("readOnlyRootFilesystem"):
            _mount("none", root, MS_REMOUNT | MS_BIND | MS_RDONLY)
        os.chroot(root)
        os.chdir(directory)
        if own.get("capabilities", {}).get("drop") == ["ALL"]:
            for capability in range(64):
                LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if own.get("allowPrivilegeEscalation") is False:
            _check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)

    return subprocess.Popen(command, preexec_fn=enter, env=environment, stdout=log, stderr=log,
                            stdin=subprocess.DEVNULL)


def run_inside(process, command):
    """Runs a command in a running container, as an exec probe does. Returns whether it ended
    with 0."""
    nsenter = ["nsenter", f"--target={process.pid}", "--mount", "--root", "--wd", "--"]
    return subprocess.run([*nsenter, *command], capture_output=True, check=False).returncode == 0
