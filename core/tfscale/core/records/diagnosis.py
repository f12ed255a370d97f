"""Diagnosis: a finding as a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tfscale.core.records.schema import Time

Evidence = dict[str, float | str | tuple[str, ...] | None]
"""Numbers, words and names of a finding, under the names of the schema."""
BEGAN, EARLIER = "began", "earlier"
"""Name and value in the evidence of a finding that held at the begin of the kept data, and so perhaps before."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of the program or the cluster, with the gain that a model predicts."""

    what: str
    gain: float | None = None
    """Factor of throughput; None where no model predicts it."""
    model: str = ""
    """The assumption of the model, in words."""
    at_most: bool = False
    """True if the model of the gain leaves out effects that can only make the gain smaller."""

    def __str__(self) -> str:
        if self.gain is None:
            return self.what
        most = "at most " if self.at_most else ""
        return f"{self.what} ({most}+{self.gain - 1:.0%} throughput)"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding, as screens, log and report show it."""

    kind: str
    subject: str
    begin: Time
    end: Time | None
    severity: str
    """`info`, `warning`, `serious` or `critical`."""
    sentence: str
    evidence: Evidence = field(default_factory=dict)
    together: tuple[str, ...] = ()
    """Subjects of all findings that share this sentence, including this one; empty where no other finding shares it."""
    remedies: tuple[Remedy, ...] = ()
    """Changes that would help; the first is named in the sentence."""
    statement: str = ""
    """The sentence without its remedy; empty where it has none."""

    @property
    def began_earlier(self) -> bool:
        """True where the finding is older than `begin`, which is the begin of the kept data."""
        return self.evidence.get(BEGAN) == EARLIER

    def number(self, name: str) -> float | None:
        """Return a number of the evidence by its name; None where the evidence has no such number."""
        value = self.evidence.get(name)
        return float(value) if isinstance(value, float | int) else None

    def named(self) -> Iterator[str]:
        """Yield all subjects' names in the finding, among other words of its evidence."""
        yield from (self.subject, *self.together)
        for value in self.evidence.values():
            if isinstance(value, str):
                yield value
            elif isinstance(value, tuple):
                yield from value
