"""The recovery policy, as the cluster file's `[recovery]` gives it: the tasks that are started again unasked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from tfscale.core.cluster.task import Role, parse_role
from tfscale.core.errors import UsageError

KEYS = (
    "policy",
    "max_restarts",
    "period",
    "backoff",
    "most_backoff",
    "without_progress",
    "on_hang",
    "on_straggler",
    "replace_after",
    "min_workers",
    "cordon_after",
)
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|h|d)")
_MOST_RESTARTS = 1000
_LONGEST = 30 * _UNITS["d"]
_Choice = TypeVar("_Choice", bound=StrEnum)


class RestartPolicy(StrEnum):
    """Ends of a task after which it is started again unasked, by the field's names."""

    ALWAYS = "Always"
    """Any end that nobody has asked for."""
    ON_FAILURE = "OnFailure"
    """Restart after any of these except an exit with code 0."""
    NEVER = "Never"
    EXIT_CODE = "ExitCode"
    """Failures by a signal, with a code from 128 on, or with 42; codes from 1 to 127 are permanent."""


class OnHang(StrEnum):
    """Reaction to a task that has stopped making steps, once the stacks of all tasks are written down."""

    TELL = "tell"
    RESTART = "restart"


class OnStraggler(StrEnum):
    """Reaction to a worker that makes the others wait, while an operator's console watches."""

    TELL = "tell"
    RESTART = "restart"
    """Restart the task in its place, with all tasks that restart with it."""
    REPLACE = "replace"
    """Restart it on a free agent."""


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """The table `[recovery]`; times are in seconds."""

    by_role: Mapping[Role, RestartPolicy]
    """Policy of each role; a role without an entry has `Never`."""
    max_restarts: int = 10
    """Restarts within `period` after which no further restart follows."""
    period: float = 3600.0
    backoff: float = 2.0
    """Time up to the first restart; it is doubled with each restart in a row without progress, up to `most_backoff`."""
    most_backoff: float = 60.0
    without_progress: int = 3
    """Most restarts in a row without a newer checkpoint or a higher step; no further restart follows."""
    on_hang: OnHang = OnHang.TELL
    on_straggler: OnStraggler = OnStraggler.TELL
    replace_after: float = 30.0
    """Seconds without an answer of an agent, after which a due restart leaves out the agent's host."""
    min_workers: int | None = None
    """Fewest workers with which the gang starts where no other agent is free; None: as many as in the file."""
    cordon_after: int = 3
    """Failures of a host within `period` after which no task is placed there."""

    def of(self, role: Role) -> RestartPolicy:
        return self.by_role.get(role, RestartPolicy.NEVER)

    def within_period(self, times: Iterable[float], at: float) -> tuple[float, ...]:
        """Return the times that count at `at`, all in seconds on one clock that nobody sets."""
        return tuple(time for time in times if at - time < self.period)


def parse_recovery(table: Mapping[str, Any]) -> RecoveryPolicy:
    """Return the policy of the table `[recovery]`. Raises UsageError."""
    for key in table:
        if key not in KEYS:
            raise UsageError(f"[recovery] has no key {key!r}: use one of {', '.join(KEYS)}")
    given = RecoveryPolicy(_policies(table.get("policy")))
    policy = RecoveryPolicy(
        by_role=given.by_role,
        max_restarts=_count(table, "max_restarts", given.max_restarts),
        period=_seconds(table, "period", given.period),
        backoff=_seconds(table, "backoff", given.backoff),
        most_backoff=_seconds(table, "most_backoff", given.most_backoff),
        without_progress=_count(table, "without_progress", given.without_progress),
        on_hang=_choice(OnHang, table.get("on_hang", given.on_hang), "on_hang"),
        on_straggler=_choice(OnStraggler, table.get("on_straggler", given.on_straggler), "on_straggler"),
        replace_after=_seconds(table, "replace_after", given.replace_after),
        min_workers=_count(table, "min_workers", 1) if "min_workers" in table else None,
        cordon_after=_count(table, "cordon_after", given.cordon_after),
    )
    if policy.most_backoff < policy.backoff:
        raise UsageError("[recovery] most_backoff is shorter than backoff: give both")
    return policy


def time_text(seconds: float) -> str:
    """Return a time as a person writes it in the table: `1 h`, `90 s`."""
    unit, length = next(each for each in reversed(_UNITS.items()) if seconds % each[1] == 0 or each[0] == "s")
    return f"{seconds / length:g} {unit}"


def _policies(value: object) -> dict[Role, RestartPolicy]:
    if value is None:
        raise UsageError(f"[recovery] policy is missing: use one of {', '.join(RestartPolicy)}, or a table by role")
    if not isinstance(value, dict):
        return dict.fromkeys(Role, _choice(RestartPolicy, value, "policy"))
    return {_role(key): _choice(RestartPolicy, policy, f"policy of {key}") for key, policy in value.items()}


def _role(key: str) -> Role:
    try:
        return parse_role(key)
    except UsageError as error:
        raise UsageError(f"[recovery] policy: {error}") from None


def _choice(kind: type[_Choice], value: object, key: str) -> _Choice:
    if not isinstance(value, str) or value not in tuple(kind):
        raise UsageError(f"[recovery] {key}: {value!r} is none of {', '.join(kind)}")
    return kind(value)


def _count(table: Mapping[str, Any], key: str, usual: int) -> int:
    value = table.get(key, usual)
    if type(value) is not int or not 1 <= value <= _MOST_RESTARTS:
        raise UsageError(f"[recovery] {key}: {value!r} is not a whole number from 1 to {_MOST_RESTARTS}")
    return value


def _seconds(table: Mapping[str, Any], key: str, usual: float) -> float:
    value = table.get(key)
    if value is None:
        return usual
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise UsageError(
            f'[recovery] {key}: {value!r} is not a time up to 30 d: write for example "2s", "1min" or "1h"'
        )
    return seconds
