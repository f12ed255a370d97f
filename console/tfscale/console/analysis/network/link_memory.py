"""Memory of one link: TCP's numbers of the newest seconds, and the usual rate from before the trouble."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from tfscale.core.records.host_sample import PeerLink

WINDOW = 3.0
"""Seconds over which a link is judged. A ring with steps of half a second sends in bursts: over less, a pause between
bursts would look like a slow link; over more, it is named later."""
_KEPT = 60
"""Samples kept, one a second, and samples of a healthy link whose median is the usual rate."""
_LEAST_USUAL = 5
"""Samples of a healthy link from which on its usual rate is known: five seconds, so that their median is no burst."""


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """A link over the newest seconds."""

    sent: float
    """Bytes a second."""
    work: float
    """Share of the time in which the link had something to send that the receiver would take."""
    lost: float
    """Share of the segments that were lost."""
    unsent: int
    """Most bytes that waited in the sender's kernel."""
    round_trip: float
    is_answered: bool
    """False while the receiver's host acknowledges no repeated data."""

    @property
    def speed(self) -> float:
        """Bytes a second while the link had something to send."""
        return self.sent / max(self.work, 1e-3)


@dataclass(slots=True)
class LinkMemory:
    """Samples of one link, and its judgements so far."""

    _samples: deque[tuple[float, PeerLink]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """(Unix seconds on the sender's clock, the peer link's numbers)."""
    _rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Bytes a second in the link's healthy seconds."""
    is_cut: bool = False
    """True where the link carried data before its first sample."""
    in_a_row: int = 0
    """Judgements in a row that contradict `is_named`."""
    is_named: bool = False
    _begins: dict[str, float] = field(default_factory=dict)
    """Begin of each trouble that the link has or is suspected to have: slow, lossy."""
    _first: float | None = None
    """Time of the first sample."""

    @property
    def at(self) -> float:
        """Time of the newest sample."""
        return self._samples[-1][0]

    def add(self, at: float, link: PeerLink) -> None:
        self._samples.append((at, link))
        self._first = at if self._first is None else self._first

    def figures(self) -> LinkFigures:
        """Return the figures of the newest seconds."""
        recent = [link for at, link in self._samples if self.at - WINDOW < at]
        sent = sum(link.sent for link in recent)
        lost = sum(link.sent * (link.retransmitted or 0.0) for link in recent)
        return LinkFigures(
            sent=sent / len(recent),
            work=sum(_work(link) for link in recent) / len(recent),
            lost=lost / sent if sent else 0.0,
            unsent=max(link.unsent for link in recent),
            round_trip=median(link.round_trip for link in recent),
            is_answered=recent[-1].unanswered is None,
        )

    @property
    def manner(self) -> str:
        """Kind of fault, `slow` or `lossy`; a lossy link may look slow in some seconds."""
        return "slow" if "slow" in self._begins else "lossy"

    @property
    def since(self) -> float:
        """Begin of the link's present trouble."""
        return min(self._begins.values(), default=self.at)

    @property
    def began_earlier(self) -> bool:
        """True where the link had its present trouble from the first sample on, and carried data before it."""
        return self.is_cut and self._first is not None and self.since <= self._first

    def suspect(self, begins: Mapping[str, float]) -> None:
        """Take in the present kinds of trouble; a lasting kind keeps its begin."""
        self._begins = {manner: self._begins.get(manner, begin) for manner, begin in begins.items()}

    def note_well(self) -> None:
        """Count the newest second as a second in which the link was well."""
        self._begins = {}
        self._rates.append(self._samples[-1][1].sent)

    @property
    def usual_rate(self) -> float | None:
        """Bytes a second of the healthy link, None unknown."""
        return median(self._rates) if len(self._rates) >= _LEAST_USUAL else None

    def slow_since(self, speed: float) -> float:
        """Return the begin of the newest seconds in a row below this rate, bytes a second."""
        begin = self.at
        for at, link in reversed(self._samples):
            if _work(link) and link.sent / _work(link) > speed:
                break
            begin = at
        return begin - 1.0


def _work(link: PeerLink) -> float:
    return max(0.0, link.busy - link.held)
