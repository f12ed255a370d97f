"""Container of a pod, or another whose process 1 is the agent: defaults of settings that suit it.

Nobody types flags there, and nobody starts another agent: the container's end stands for the task's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.settings.user_folders import has_state_folder

_GRACE = 24.0
"""Seconds of a task in a pod, which Kubernetes kills 30 s after SIGTERM (terminationGracePeriodSeconds)."""
_GRACE_ELSEWHERE = 8.0
"""The same where `docker stop` kills it after 10 s."""


def is_in_pod(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST"))


def container_defaults(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that hold in a container where nobody has chosen others; empty outside of one."""
    if not is_in_pod(environment) and os.getpid() != 1:
        return {}
    # The files of a container go with it; its user often has no home.
    elsewhere = (
        {} if has_state_folder(environment) else {"state_dir": Path(gettempdir(), f"tfscale-state-{os.getuid()}")}
    )
    return {
        **elsewhere,
        "exit_with_task": True,
        "show_output": True,
        "log_level": "warning",
        "restart": True,
        "grace": _GRACE if is_in_pod(environment) else _GRACE_ELSEWHERE,
    }


def pod_defaults(spec: ClusterSpec, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a pod that is one of several.

    Without [tls] its agents go in plain text, as TensorFlow's servers beside them do: the policies of the network
    decide who may reach a pod.
    """
    if not is_in_pod(environment) or spec.is_alone or spec.tls is not None:
        return {}
    return {"insecure": True}


def served_address(agent: Address, spec: ClusterSpec, environment: Mapping[str, str]) -> Address:
    """Return the address at which an agent listens: in a pod all of the pod's, since its name may be a service's."""
    is_own = not is_in_pod(environment) or spec.is_alone or agent.is_loopback
    return agent if is_own else Address("0.0.0.0", agent.port)
