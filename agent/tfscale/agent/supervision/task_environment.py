"""Environment variables of the task: the contract with the probe inside it."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import tfscale
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.local.gpu_shares import VISIBLE_GPUS
from tfscale.core.cluster.local.runtime_folder import made_runtime_folders, runtime_folders
from tfscale.core.cluster.tf_config import tf_config
from tfscale.core.errors import TfscaleError
from tfscale.core.metrics.page_address import without_page

_SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux."""
_PACKAGES = ("agent", "console", "core", "trainer", "v1")
"""Packages of tfscale; in a checkout each is in a folder of its own."""


class SocketError(TfscaleError):
    """Lack of a folder for the socket on which the task reports."""


def task_environment(
    settings: AgentSettings, generation: int, attempt: int, socket: str, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the whole environment of one start of the task."""
    environment = {"PYTHONUNBUFFERED": "1", **without_page(base), **settings.cluster.program.environment}
    given = ""
    if not settings.cluster.is_alone:
        given = environment["TF_CONFIG"] = tf_config(settings.cluster, settings.task, base.get("TF_CONFIG", ""))
    environment |= {
        "TFSCALE_TF_CONFIG": "" if settings.script_tf_config else given,
        "TFSCALE_DATA_SERVICE": f"grpc://{service}" if (service := settings.cluster.data_service) else "",
        "TFSCALE_DEVICES": str(settings.replicas),
        "TFSCALE_RUN": settings.run,
        "TFSCALE_TASK": str(settings.task),
        "TFSCALE_GENERATION": str(generation),
        "TFSCALE_ATTEMPT": str(attempt),
        "TFSCALE_REPORT": socket,
        "TFSCALE_AGENT_USER": str(os.getuid()),
        "TFSCALE_STACKS": str(settings.files.stacks),
        "TFSCALE_PROBE_PATH": os.pathsep.join(probe_portions()),
        "TFSCALE_CONSOLE": shlex.join(console_command(settings)),
    }
    if (gpus := settings.visible_gpus) is not None:
        environment[VISIBLE_GPUS] = gpus
    if (site := probe_site()) is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [site, environment.get("PYTHONPATH")]))
    return environment


def console_command(settings: AgentSettings) -> list[str]:
    """Return the command of a console of the task's own cluster, as for a program that asks for its own diagnosis."""
    file = settings.cluster_file
    cluster = ["--agent", str(settings.listen)] if file is None else ["--cluster", str(file)]
    insecure = ["--insecure"] if settings.insecure else []
    return [sys.executable, "-m", "tfscale.console.cli", *cluster, *insecure]


def probe_portions() -> list[str]:
    """List the folders of the namespace package `tfscale`. The task finds no others, and may start an agent itself."""
    return [portion for portion in tfscale.__path__ if any((Path(portion) / name).is_dir() for name in _PACKAGES)]


def probe_site() -> str | None:
    """Return the folder whose `sitecustomize` loads the probe in the task; None if the trainer is not installed."""
    sites = (Path(portion) / "trainer" / "probe" / "entry" / "site" for portion in tfscale.__path__)
    return next((str(site) for site in sites if site.is_dir()), None)


def report_socket(settings: AgentSettings, base: Mapping[str, str] = os.environ) -> str:
    """Return a path for the report socket that is short, private to the user, and the same for each agent of the task.

    Raises SocketError if neither the runtime folder nor the temporary one is short and private enough.
    """
    identity = hashlib.sha256(os.fsencode(settings.files.folder / settings.files.stem)).hexdigest()[:16]
    for folder in made_runtime_folders(base):
        path = folder / f"{identity}.sock"
        if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES:
            return str(path)
    tried = " and ".join(map(str, runtime_folders(base)))
    raise SocketError(
        f"no folder for the report socket: {tried}: the path is too long, or others may write there: "
        "set TMPDIR to a short folder of your own"
    )
