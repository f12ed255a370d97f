"""Experiment trackers to which the numbers of a run are added, each by its own library, imported when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol

from tfscale.console.tracking.run_series import Moment
from tfscale.core.errors import TfscaleError, UsageError


class TrackerError(TfscaleError):
    """Failure of a tracker, in its own words."""


class Tracker(Protocol):
    """Receiver of the moments of one run."""

    where: str
    """Words for the place in which the numbers are found."""

    def write(self, moment: Moment) -> None:
        """Add the numbers of a moment. Raises TrackerError."""

    def close(self) -> None:
        """Write what is left, and end. Raises TrackerError."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A tracker, and the place in it."""

    kind: str
    """One of KINDS."""
    place: str = ""
    """Folder of TensorBoard, project of W&B, experiment of MLflow; empty: the usual one."""

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Return the destination of a text such as `wandb`, `wandb=PROJECT`. Raises UsageError."""
        kind, _, place = text.partition("=")
        if kind not in KINDS:
            raise UsageError(f"{text!r} is no tracker: write {', '.join(FORMS)}")
        if kind == "tensorboard" and not place:
            raise UsageError("tensorboard needs a folder: tensorboard=FOLDER")
        return cls(kind, place)

    def within(self, run: str) -> Destination:
        """Return the place for one of several runs: a folder of its own."""
        return replace(self, place=f"{self.place}/{run}") if self.kind == "tensorboard" else self

    def __str__(self) -> str:
        return f"{self.kind}={self.place}" if self.place else self.kind


KINDS = ("tensorboard", "wandb", "mlflow")
FORMS = ("tensorboard=FOLDER", "wandb[=PROJECT]", "mlflow[=EXPERIMENT]")
_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow-skinny"}


def check_installed(destinations: Sequence[Destination]) -> None:
    """Import the libraries of these destinations. Raises UsageError where one is not installed."""
    for each in destinations:
        try:
            import_module(each.kind)
        except ImportError as error:
            package = _PACKAGES[each.kind]
            raise UsageError(f"{each.kind} cannot be imported ({error}): pip install {package}") from None


def open_tracker(destination: Destination, run: str, found: str) -> Tracker:
    """Open a tracker for a run; `found` is the tracker's own id of the script's run there, empty where none is known.

    Raises TrackerError.
    """
    module = import_module(f"tfscale.console.tracking.{destination.kind}_tracker")
    opened: Tracker = explained(destination.kind, module.open_run, destination.place, run, found)
    return opened


def explained(kind: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return the result of a library's function. Raises TrackerError for whatever it raises."""
    try:
        return call(*arguments, **named)
    except Exception as error:
        # Each of these libraries has its own errors, and those of what it talks through.
        text = " ".join(str(error).split())[:300]
        raise TrackerError(f"{kind}: {text or type(error).__name__}") from error
