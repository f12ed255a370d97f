"""The strategies of `tf.distribute` in one table: to support another one, add a row.

The family of a strategy decides which tasks restart together and what a restart loses (`restart.py` beside it). The
other columns tell the probe how replicas exchange tensors (`probe/graph/distribution.py`) and which methods to hook
(`probe/hooks/tensorflow_hooks.py`).

A strategy is found by the name of its class or of a base class, so a subclass has the row of its base. A strategy
without a row is judged by the roles of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tfscale.core.cluster.task import DATA_SERVICE, Role

LOCAL = "LOCAL"
"""Collective of replicas that share one process: no network is involved."""
RING = "RING"
"""Collective that TensorFlow runs on CPUs, whatever the program asks for."""


@dataclass(frozen=True, slots=True)
class Family:
    """Dependence of the tasks of a training on one another."""

    name: str
    in_step: frozenset[Role] = frozenset()
    """Roles whose tasks all restart together, because none of them trains without the others."""
    with_chief: frozenset[Role] = frozenset()
    """Roles whose restart restarts the chief as well."""
    stateless: frozenset[Role] = frozenset({Role.EVALUATOR, Role.DATAWORKER})
    """Roles whose restart loses nothing: other tasks hold the variables."""
    serving: frozenset[Role] = DATA_SERVICE
    """Roles that serve the lead and never end by themselves (their servers' `join` does not return)."""


ALONE = Family("alone")
SYNCHRONOUS = Family("synchronous", in_step=frozenset({Role.CHIEF, Role.WORKER}))
ASYNCHRONOUS = Family(
    "asynchronous",
    with_chief=frozenset({Role.PS}),
    stateless=frozenset({Role.EVALUATOR, Role.DATAWORKER, Role.WORKER}),
    serving=DATA_SERVICE | {Role.WORKER, Role.PS},
)


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy, by its public name in `tf.distribute`."""

    name: str
    family: Family | None
    """None: the roles of the cluster decide."""
    classes: tuple[str, ...]
    """Names of the classes in TensorFlow that implement it."""
    extended: str = ""
    """`module:Class` of its StrategyExtended below `tensorflow.python.distribute`; empty: as any other strategy."""
    reductions: tuple[str, ...] = ()
    """Reducing methods that the class of `extended` defines itself, and in which they are hooked."""
    collective: str | None = LOCAL
    """Way in which replicas exchange tensors; None: across processes, by the program's `CommunicationOptions`."""


DEFAULT = Strategy("_DefaultDistributionStrategy", ALONE, ("_DefaultDistributionStrategy",))
"""Strategy that TensorFlow uses outside of any `Strategy.scope`."""

STRATEGIES = (
    DEFAULT,
    Strategy(
        "OneDeviceStrategy",
        ALONE,
        ("OneDeviceStrategy", "OneDeviceStrategyV1"),
        "one_device_strategy:OneDeviceExtended",
        ("_reduce_to",),
    ),
    Strategy(
        "MirroredStrategy",
        ALONE,
        ("MirroredStrategy", "MirroredStrategyV1"),
        "mirrored_strategy:MirroredExtended",
        ("_batch_reduce_to", "_reduce_to"),
    ),
    Strategy(
        "CentralStorageStrategy",
        ALONE,
        ("CentralStorageStrategy", "CentralStorageStrategyV1"),
        "parameter_server_strategy:ParameterServerStrategyExtended",
        ("_batch_reduce_to", "_reduce_to"),
    ),
    Strategy(
        "MultiWorkerMirroredStrategy",
        SYNCHRONOUS,
        ("CollectiveAllReduceStrategy", "CollectiveAllReduceStrategyV1"),
        "collective_all_reduce_strategy:CollectiveAllReduceExtended",
        ("_reduce_to",),
        collective=None,
    ),
    Strategy(
        "ParameterServerStrategy",
        ASYNCHRONOUS,
        ("ParameterServerStrategyV2", "ParameterServerStrategyV1"),
        "parameter_server_strategy_v2:ParameterServerStrategyV2Extended",
    ),
    # Its steps are compiled by XLA as a whole, so there is nothing to hook in them.
    Strategy("TPUStrategy", None, ("TPUStrategyV2", "TPUStrategy", "TPUStrategyV1")),
)
_BY_NAME = {name: row for row in STRATEGIES for name in (*row.classes, row.name)}


def find_strategy(names: Iterable[str]) -> Strategy | None:
    """Return the row of the first name in the table; `names` are those of a class and then of its bases."""
    return next((_BY_NAME[name] for name in names if name in _BY_NAME), None)


def family_of(name: str | None, roles: Iterable[Role]) -> Family:
    """Return the family of the named strategy; without one, the usual family of a cluster with these roles.

    A program without a strategy that has parameter servers exchanges with them by itself.
    """
    row, roles = find_strategy(() if name is None else (name,)), list(roles)
    is_served = Role.PS in roles
    if row is not None and row.family is not None and not (row is DEFAULT and is_served):
        return row.family
    if is_served:
        return ASYNCHRONOUS
    return SYNCHRONOUS if sum(role in SYNCHRONOUS.in_step for role in roles) > 1 else ALONE
