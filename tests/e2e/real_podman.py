"""Real podman: an image of tfscale on a Debian made from packages, and pods in a network of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAMS = ("podman", "mmdebstrap", "crun", "unshare", "iptables")
_SETTINGS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
_PLACE = "umount /sys/fs/cgroup/unified 2>/dev/null; ip link set lo up; echo made; exec sleep infinity"
"""Process with podman's mounts (with both kinds of cgroups it takes none) and network: this host's stays as it is."""
_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
_SUITE = "bookworm"
_POLL = 0.5
IMAGE = "localhost/tfscale:latest"


def missing() -> str:
    """Return why there can be no podman here; empty where it can run."""
    if lacking := [name for name in _PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]:
        return f"{' and '.join(lacking)} not installed: scripts/ci/packages installs them"
    return "" if os.geteuid() == 0 else "only root makes containers with a network here"


class RealPodman:
    """Store of images and pods in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = folder / "containers.conf"
        self._settings.write_text(_SETTINGS)
        self._sockets = tempfile.TemporaryDirectory(prefix="pods-", ignore_cleanup_errors=True)  # at most 50 characters
        place = ["unshare", "--mount", "--net", "sh", "-c", _PLACE]
        self._place = subprocess.Popen(place, stdout=subprocess.PIPE, text=True)
        assert self._place.stdout is not None and self._place.stdout.readline() == "made\n"

    def run(self, *words: str | Path, check: bool = True) -> str:
        """Run podman and return what it writes; its pods go on."""
        store = ["--root", self._folder / "store", "--runroot", self._sockets.name]
        # An image is made of packages, which are far away.
        spaces = ["--mount"] if words[0] == "build" else ["--mount", "--net"]
        command = [
            "nsenter",
            "--target",
            str(self._place.pid),
            *spaces,
            "podman",
            *store,
            "--storage-driver",
            "vfs",
            "--cgroup-manager",
            "cgroupfs",
            *words,
        ]
        environment = {**os.environ, "CONTAINERS_CONF": str(self._settings)}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"podman {' '.join(map(str, words))}: {done.stdout[-2000:]}")
        return done.stdout

    def build(self, containerfile: Path, wheel: Path) -> None:
        """Build the image of a Containerfile, with a wheel of tfscale, on a Debian with its Python."""
        archive, base, context = self._folder / "debian.tar", "localhost/python", self._folder / "context"
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, archive], check=True
        )
        self.run("import", archive, base)
        archive.unlink()
        context.mkdir()
        shutil.copy(containerfile, context / "Containerfile")
        shutil.copy(wheel, context)
        certificates = ["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
        words = ["--network", "host", "--isolation", "chroot", "--build-arg", f"BASE={base}", "--tag", IMAGE]
        self.run("build", *words, *certificates, *_index_variables(), context)

    def play(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Start pods of Kubernetes."""
        path = self._folder / "pods.yaml"
        path.write_text("\n---\n".join(json.dumps(pod) for pod in pods))
        self.run("kube", "play", path)

    def remove_pods(self) -> None:
        """Remove all pods."""
        self.run("pod", "rm", "--all", "--force", check=False)

    def end(self) -> None:
        """Remove all pods and what they have left."""
        self.remove_pods()
        self._place.terminate()
        self._place.communicate()
        self._sockets.cleanup()

    def status(self, container: str, patience: float) -> int:
        """Return the exit status of a container. Raises TimeoutError if it runs for more than `patience` seconds."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            state, code = self.run("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", container).split()
            if state == "exited":
                return int(code)
            time.sleep(_POLL)
        raise TimeoutError(f"{container} still runs: {self.run('logs', container)[-2000:]}")


def _index_variables() -> list[str]:
    """Return flags that give the build what pip is told here about its index."""
    names = (
        name for name in os.environ if name.startswith("PIP_") and name not in {"PIP_FIND_LINKS", "PIP_CONSTRAINT"}
    )
    return [word for name in names for word in ("--env", f"{name}={os.environ[name]}")]
