"""Decision logic of a proposer, without input and output: register, model and simulation run the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tfscale.agent.consensus.decision import Decision, checked_value
from tfscale.agent.consensus.votes import Promise

Change = Callable[[bytes], bytes]
"""Function of the value before to the value after. It is called once for each ballot, so it must have no effects."""


class Overtaken(Exception):
    """A change of which can no longer be told whether it was made: too many others were made since."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of a ballot's promises."""

    decision: Decision
    """Decision that those who gave the promises are to accept in the ballot."""
    is_decided: bool
    """True where nothing is to be accepted: a majority has."""
    error: Exception | None = None
    """Error of the change's function; the change was not made, and will not be once the decision is accepted."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change on its way through one or several ballots."""

    change: str
    """Identifier of the change, which no other change ever has."""
    since: int | None = None
    """Version on which voters were first asked to accept the change; None: never, so it cannot have been made."""

    def sent(self, decision: Decision) -> Proposal:
        """Return the proposal once voters are asked to accept this decision."""
        is_first = self.since is None and self.change in decision.changes
        return replace(self, since=decision.version - 1) if is_first else self

    def decide(self, promises: Mapping[str, Promise], function: Change) -> Step:
        """Return what follows from the promises of a majority. Raises Overtaken."""
        newest, error = newest_promise(promises).decision, None
        try:
            decision = self._applied(newest, function)
        except Overtaken:
            raise
        except Exception as raised:
            decision, error = newest, raised
        # A change that may have reached a voter, and is not decided, is buried only by an acceptance in a newer ballot.
        is_open = self.since is not None and self.change not in newest.changes
        return Step(decision, decision == newest and not is_open and _is_unanimous(promises), error)

    def _applied(self, newest: Decision, function: Change) -> Decision:
        if self.change in newest.changes:
            return newest
        if self.since is not None and newest.version - self.since > len(newest.changes):
            raise Overtaken
        value = checked_value(function(newest.value))
        return newest if value == newest.value else newest.changed(self.change, value)


def newest_promise(promises: Mapping[str, Promise]) -> Promise:
    """Return the promise with the newest accepted decision."""
    return max(promises.values(), key=lambda promise: promise.accepted)


def _is_unanimous(promises: Mapping[str, Promise]) -> bool:
    """Decide whether one decision is all that these voters have accepted: a majority's is then decided."""
    return len({promise.accepted for promise in promises.values()}) == 1
