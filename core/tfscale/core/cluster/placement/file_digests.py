"""Digests of the parts of a cluster file in which all agents must agree before tasks are placed anew."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.placement.placement import file_spec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy

_DIGITS = 8
_RECOVERY = "[recovery]"
_KEYS = [each.name for each in fields(RecoveryPolicy) if each.name != "by_role"]
"""Keys of that table; its `policy` is a mapping, whose order says nothing."""
NO_PLACEMENTS = ("[spares] and min_workers=none",)
"""Digests of a file with which an agent knows of no placements."""


def file_digests(spec: ClusterSpec) -> tuple[str, ...]:
    """Return `PART=DIGEST` of the agents' addresses, the spares, and each key of `[recovery]`."""
    written = file_spec(spec)
    parts: dict[str, object] = {
        "[agents]": [f"{task} {agent}" for task, agent in written.agents.items()],
        "[spares]": [f"{agent} {task}" for agent, task in written.spares.items()],
        _RECOVERY: written.recovery is not None,
    }
    if written.recovery is not None:
        parts |= {f"{key} in {_RECOVERY}": getattr(written.recovery, key) for key in _KEYS}
        parts[f"policy in {_RECOVERY}"] = sorted(
            f"{role} {policy}" for role, policy in written.recovery.by_role.items()
        )
    return tuple(f"{part}={hashlib.sha256(str(value).encode()).hexdigest()[:_DIGITS]}" for part, value in parts.items())


def differing_parts(own: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the parts in which another file differs from the own; an agent that sends no digests has none."""
    parts = [each.rpartition("=")[0] for each in other if each not in own]
    return [_RECOVERY] if _RECOVERY in parts else parts
