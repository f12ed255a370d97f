"""Kinds of findings: one row for each kind, read by all code that treats kinds differently.

A field that is None has its reason in the row. docs/reference/diagnoses.md tells when each kind is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tfscale.console.analysis import first_steps
from tfscale.core.records.diagnosis import Diagnosis

FirstStep = str | Callable[[Diagnosis], str | None]
"""Words for every finding of a kind, or a function from the finding to its words."""


class Group(StrEnum):
    """Part of the cluster's work that a finding is about."""

    PACE = "pace"
    """How fast a cluster trains: no such finding holds while the cluster does not train."""
    STANDSTILL = "standstill"
    """A task keeps all others from making steps."""
    PROCESS = "process"
    """A process that failed, has not started, or is not as it should be."""
    LEARNING = "learning"
    """Worth of the steps that are made."""
    NETWORK = "network"
    """Hosts and agents that do not hear each other."""
    INFO = "info"
    """News without trouble."""


class Charge(StrEnum):
    """Time that a finding is charged with."""

    STANDSTILL = "standstill"
    """All time without a step. The bucket of goodput has the same name, as for the next two members."""
    RECOVERY = "recovery"
    START = "start"
    JOINT_SHARE = "joint share"
    """The finding's part of the joint cost of all stragglers."""
    WORTHLESS = "worthless"
    """All time with steps, since each step is worthless."""
    SHARE = "share"
    """The share of the time in the finding's evidence (`cost`)."""


_STOPPING = (Charge.STANDSTILL, Charge.RECOVERY, Charge.START)
NOT_JUDGED = "not_judged"
"""Evidence of a finding that ended only because it is no longer judged: the reason, a key of `NOT_JUDGED_WHY`."""
NOT_JUDGED_WHY = {
    "straggler": "not judged beside a straggler",
    "slow_link": "not judged beside a slow link",
    "still": "not judged while no step is made",
    "starting": "not judged before the first step",
    "unknown": "not judged while nobody who trains is heard",
    "ended": "the training has ended",
    "failed": "a task has failed",
    "moved": "its task was placed on another host",
    "other_crash": "told with another crash",
    "hang": "told as stuck",
    "not_running": "others were started again, its own task not so far",
}
"""Words for each reason: a kind of findings, a condition of the cluster in which its pace is not judged, `failed`,
beside which no task is called stuck, or why a cut-off host is not heard, a crashed task does not run again and a
standstill goes on."""
_SAYS_ITSELF = "its last sentence tells what it was"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingKind:
    """One kind of findings. `charges`, `is_over` and `first_step` are None only with their reason in `gaps`."""

    name: str
    """`Diagnosis.kind`."""
    group: Group
    charges: Charge | None
    forbids_restart: bool
    """True where no slow worker is restarted beside this finding, which holds the worker up or explains more."""
    is_over: str | None
    """Words for the end of such a finding in the events."""
    first_step: FirstStep | None
    """The first thing to do."""
    in_short: str = ""
    """Finding as one says it of a task, in a title; empty where that is its name."""
    nouns: tuple[str, str] | None = None
    """Singular and plural name in the verdict of a report; None where the kind is charged with nothing."""
    info_is_calm: bool = False
    """True where a finding of severity `info` is no trouble: a cluster with only such findings is healthy."""
    is_advice: bool = False
    """True for what holds all the time, and would be better otherwise: nobody is alerted of it."""
    costs_all: bool = False
    """True where every step beside such a finding is worthless, or nobody knows which steps are."""
    yields_to: tuple[str, ...] = ()
    """Kinds beside which such a finding is not judged: then it ends without being over."""
    tells_who_ended: bool = False
    """True where the sentence names all tasks that the finding has ended."""
    gaps: Mapping[str, str] = field(default_factory=dict)
    """Reason for each field that is None, by the field's name."""

    @property
    def word(self) -> str:
        """The finding in a word or two: `slow`, `unused gpus`."""
        return self.in_short or self.name.replace("_", " ")

    @property
    def stops_training(self) -> bool:
        """True where such a finding explains why a cluster makes no step."""
        return self.charges in _STOPPING


def _without_cost(**gaps: str) -> dict[str, str]:
    return {"charges": "steps go on as fast as before", **gaps}


KINDS = (
    FindingKind(
        name="cut_off", group=Group.NETWORK, charges=Charge.STANDSTILL, forbids_restart=True,
        in_short="cut off",
        nouns=("host that was cut off", "hosts that were cut off"), is_over="its host is heard again",
        tells_who_ended=True,
        first_step="see whether its host is up, then look at its network (cable, port, firewall); restart what has "
        "ended, unless agents do",
    ),
    FindingKind(
        name="crash", group=Group.PROCESS, charges=Charge.RECOVERY, forbids_restart=True,
        in_short="crashed", nouns=("crash", "crashes"),
        is_over="runs again", tells_who_ended=True, costs_all=True, first_step=first_steps.about_crash,
    ),
    FindingKind(
        name="blocked", group=Group.PROCESS, charges=Charge.STANDSTILL, forbids_restart=True,
        nouns=("blocked process", "blocked processes"), is_over="its threads go on",
        first_step=first_steps.about_blocked,
    ),
    FindingKind(
        name="unreachable", group=Group.NETWORK, charges=None, forbids_restart=True,
        is_over="the console reaches its agent again, or nobody knows why not",
        first_step=first_steps.about_unreachable, gaps=_without_cost(),
    ),
    FindingKind(
        name="hang", group=Group.STANDSTILL, charges=Charge.STANDSTILL, forbids_restart=True,
        in_short="stuck", nouns=("hang", "hangs"),
        is_over="no longer stuck", first_step=first_steps.about_hang,
    ),
    FindingKind(
        name="still", group=Group.STANDSTILL, charges=Charge.STANDSTILL, forbids_restart=True,
        in_short="stands still",
        nouns=("standstill", "standstills"), is_over="no longer still", first_step=first_steps.about_hang,
    ),
    FindingKind(
        name="not_started", group=Group.PROCESS, charges=Charge.START, forbids_restart=True,
        nouns=("late task", "late tasks"), is_over="no longer waited for",
        first_step="start it, or read its log: all others wait for it",
    ),
    FindingKind(
        name="not_trained", group=Group.PROCESS, charges=None, forbids_restart=True, is_over="was started again",
        first_step=None,
        gaps={
            "charges": "the task has ended, and no step was made that could be missed",
            "first_step": "its sentence has the reason that the probe knows, with what to do",
        },
    ),
    FindingKind(
        name="not_measured", group=Group.PROCESS, charges=None, forbids_restart=False,
        is_over="is measured, or was started anew", first_step=None,
        gaps=_without_cost(first_step="its sentence says what to do"),
    ),
    FindingKind(
        name="not_fitting", group=Group.PROCESS, charges=None, forbids_restart=False,
        is_over="has ended, or runs with another version", first_step=None, info_is_calm=True,
        gaps=_without_cost(first_step="its sentence says which version to install"),
    ),
    FindingKind(
        name="unused_gpus", group=Group.PROCESS, charges=None, forbids_restart=True,
        is_over="uses its GPUs, or has ended", first_step=None,
        gaps={
            "charges": "what the GPUs would have gained is not known; a worker that is slower for it is a straggler",
            "first_step": "its sentence says why TensorFlow uses no GPU",
        },
    ),
    FindingKind(
        name="not_finite", group=Group.LEARNING, charges=Charge.WORTHLESS, forbids_restart=True,
        nouns=("loss that is no number", "losses that are no number"),
        is_over="loss and gradients are numbers again, or it was restarted", costs_all=True,
        first_step=first_steps.about_not_finite,
    ),
    FindingKind(
        name="empty_batches", group=Group.LEARNING, charges=None, forbids_restart=True,
        is_over="its batches have examples again, or it has ended",
        first_step="give every worker equally many batches, or let its data repeat", gaps=_without_cost(),
    ),
    FindingKind(
        name="wrong_speed", group=Group.NETWORK, charges=None, forbids_restart=False, is_over="no longer known",
        first_step=None, gaps=_without_cost(first_step="its sentence says which number of the cluster file to change"),
    ),
    FindingKind(
        name="wrong_clock", group=Group.NETWORK, charges=None, forbids_restart=False,
        is_over="its clock agrees with the others' again",
        first_step="set the clock (chronyc makestep, timedatectl): until then times of several hosts mislead",
        gaps=_without_cost(),
    ),
    FindingKind(
        name="slow_link", group=Group.PACE, charges=Charge.SHARE, forbids_restart=True,
        nouns=("slow link", "slow links"), is_over="the link is as the others again, or carries nothing",
        first_step="look at the cable, port and settings (ethtool) of both hosts, and at who else uses that way",
    ),
    FindingKind(
        name="straggler", group=Group.PACE, charges=Charge.JOINT_SHARE, forbids_restart=False,
        in_short="slow",
        nouns=("straggler", "stragglers"), is_over=None, first_step=first_steps.about_straggler,
        gaps={"is_over": _SAYS_ITSELF},
    ),
    FindingKind(
        name="pauses", group=Group.PACE, charges=Charge.SHARE, forbids_restart=False,
        nouns=("worker that pauses", "workers that pause"), is_over="pauses no more",
        first_step=first_steps.about_pauses,
    ),
    FindingKind(
        name="slowdown", group=Group.PACE, charges=Charge.SHARE, forbids_restart=False,
        nouns=("slowdown of all workers", "slowdowns of all workers"),
        is_over="steps are as fast as before again, or were started anew", first_step=first_steps.about_slowdown,
        info_is_calm=True,
    ),
    FindingKind(
        name="imbalance", group=Group.PACE, charges=Charge.SHARE, forbids_restart=False,
        nouns=("spell of uneven work", "spells of uneven work"), is_over="the work is even again",
        first_step=first_steps.about_imbalance, yields_to=("straggler",),
    ),
    FindingKind(
        name="uneven_servers", group=Group.PACE, charges=None, forbids_restart=False,
        is_over="the servers move their parts, or were started anew", info_is_calm=True, is_advice=True,
        first_step="split large variables over the servers (variable_partitioner; layers of Keras 3 cannot), or create "
        "them in another order: TensorFlow gives variables to the servers in turn",
        gaps={"charges": "only a server that is the limit costs time; `saturation` tells that, and the gain"},
    ),
    FindingKind(
        name="saturation", group=Group.PACE, charges=None, forbids_restart=False, is_over="no longer at this limit",
        first_step=first_steps.about_limit, info_is_calm=True, is_advice=True, yields_to=("straggler", "slow_link"),
        gaps={"charges": "some resource limits every cluster; what another one would gain is told as a remedy"},
    ),
    FindingKind(
        name="restart", group=Group.INFO, charges=None, forbids_restart=False, is_over=None, first_step=None,
        info_is_calm=True,
        gaps={
            "charges": "the time without a step is charged to what the restart was for; its evidence has the cost",
            "is_over": _SAYS_ITSELF, "first_step": "it is news, and nothing to repair",
        },
    ),
)  # fmt: skip
"""All kinds, causes before effects: of two otherwise equal findings the earlier kind comes first."""

_BY_NAME = {kind.name: kind for kind in KINDS}
_RANKS = {kind.name: rank for rank, kind in enumerate(KINDS)}


def kind_of(diagnosis: Diagnosis) -> FindingKind:
    """Return the row of a diagnosis; a neutral row for an unknown kind, as in a recording of a later version."""
    return _BY_NAME.get(diagnosis.kind) or _unknown(diagnosis.kind)


def rank_of(diagnosis: Diagnosis) -> int:
    """Return the place of a diagnosis's kind in `KINDS`; unknown kinds come last."""
    return _RANKS.get(diagnosis.kind, len(KINDS))


def first_step(diagnosis: Diagnosis) -> str | None:
    """Return the first thing to do about a finding; None where its sentence contains it already."""
    step = kind_of(diagnosis).first_step
    return step(diagnosis) if callable(step) else step


def _unknown(name: str) -> FindingKind:
    return FindingKind(
        name=name,
        group=Group.INFO,
        charges=None,
        forbids_restart=False,
        is_over="is over",
        first_step=None,
        gaps=dict.fromkeys(("charges", "first_step"), "the kind has no row"),
    )
