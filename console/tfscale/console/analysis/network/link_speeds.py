"""Speeds of links by the cluster file, and the wrong ones: such a link has carried more."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import bit_rate

BEYOND = 1.1
"""Ratio of an interface's bytes in a second to its given speed from which on the given speed is wrong. No link
carries more than it can, and rates of a second are off by some percent; closer to 1 this noise would call right
speeds wrong."""
BEYOND_IN_STEP = 1.25
"""The same ratio for the bytes of an all-reduce over its time. Both are computed, so it is further from 1 than
`BEYOND`: a shaped link was at 0.83 to 0.86 of its speed."""


@dataclass(slots=True)
class LinkSpeeds:
    """Speeds from the cluster file, without those that a link has exceeded."""

    spec: ClusterSpec
    _carried: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Tasks whose link carried more than the cluster file allows: (time of the finding, bits a second carried)."""

    def given(self, task: str) -> float | None:
        """Return the speed of a task's link in bits a second, None where it is not given or wrong."""
        return None if task in self._carried else self.spec.link_speed(Task.parse(task))

    def note_carried(self, task: str, carried: float, now: float, beyond: float = BEYOND) -> None:
        """Take in the bits a second that a task's link carried."""
        speed = self.spec.link_speed(Task.parse(task))
        if speed is None or carried < beyond * speed:
            return
        found, most = self._carried.get(task, (now, 0.0))
        # Its sentence stays the same until much more is seen.
        self._carried[task] = (found, carried if carried > BEYOND * most else most)

    @property
    def wrong(self) -> list[Diagnosis]:
        """A `wrong_speed` for each link that carried more than the speed in the cluster file."""
        return [self._describe(task, found, carried) for task, (found, carried) in sorted(self._carried.items())]

    def _describe(self, task: str, found: float, carried: float) -> Diagnosis:
        speed = self.spec.link_speed(Task.parse(task)) or 0.0
        sentence = (
            f"the cluster file gives {task}'s link {bit_rate(speed)}, but it carried {bit_rate(carried)}: "
            "correct its speed under [links]"
        )
        return Diagnosis(
            "wrong_speed", task, found, None, "warning", sentence, evidence={"link": speed, "carried": carried}
        )
