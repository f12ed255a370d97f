"""Numbers of the training: loss, gradients, learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from tfscale.core.records.schema import Time


@dataclass(frozen=True, slots=True)
class Display:
    """Display of a measured number: the task table's column, the task's page, its chart and the report follow it."""

    about: str
    """Explanation in at most 40 characters."""
    format_spec: str = ".4g"
    offset: int = 0
    """Number added to the value for people, who count from 1."""
    is_charted: bool = True
    """True for a number whose last ten minutes the console keeps for a chart."""


def _shown(about: str, format_spec: str = ".4g", offset: int = 0, is_charted: bool = True) -> Mapping[str, Display]:
    return {"display": Display(about, format_spec, offset, is_charted)}


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of a task's own replicas that are not finite numbers, before they are reduced over all replicas.

    All but `steps` describe the first of the newest steps in a row whose gradients are not; None where they are.
    """

    steps: int = 0
    """Number of newest steps in a row with gradients that are not finite; 0 while they are finite."""
    since: Time | None = None
    sequence: int | None = None
    """Number of the step's gradient collective, as in `StepBatch`."""
    global_step: int | None = None
    replicas: tuple[int, ...] = ()
    """Replicas of the task with such gradients, counted within the task."""
    variables: int | None = None
    """Variables whose gradients were not finite."""
    checked: int | None = None
    """Variables whose gradients were checked."""
    first: str = ""
    """Name of the first of these variables; empty if unknown."""


MOST_LOGS = 16
"""Largest number of `Training.logs`."""
LONGEST_LOG_NAME = 64
"""Characters of a log's name; a log with a longer name is left out."""


@dataclass(frozen=True, slots=True)
class LoggedNumber:
    """Number that Keras logs: a metric, a part of the loss, or a number of a callback."""

    name: str
    value: float | None = None
    """None where it is not finite."""
    epoch: int | None = None
    """Epoch, from 0, at whose end it was logged; None: logged with the newest batch."""


@dataclass(frozen=True, slots=True)
class Training:
    """Progress of the training, mostly where Keras reports it. Numbers with a `Display` are shown under their names."""

    epoch: int | None = field(default=None, metadata=_shown("the pass over the data", ",.0f", 1, is_charted=False))
    """Counted from 0."""
    global_step: int | None = None
    """The optimizer's iterations."""
    loss: float | None = field(default=None, metadata=_shown("of its newest step"))
    finite: bool | None = None
    """False if the newest loss is NaN or infinite; `loss` is None then."""
    learning_rate: float | None = field(default=None, metadata=_shown("of the optimizer", ".3g"))
    grad_norm: float | None = field(default=None, metadata=_shown("norm of the gradients, where logged"))
    """Norm of the gradients, where the program logs it under this name."""
    gradients: Gradients | None = None
    """Newest gradients, if the probe checks them: on CPUs, in graphs of several replicas, without XLA."""
    logs: tuple[LoggedNumber, ...] = ()
    """Keras's logs but `loss`, `learning_rate` and `grad_norm`."""
    logs_left_out: int = 0
    """Number of logs beyond `MOST_LOGS`, or with a name longer than `LONGEST_LOG_NAME`."""
    epochs: int | None = None
    """Number of epochs after which this `fit` ends, those before its `initial_epoch` included.

    None where nobody knows them, and where all of them would take longer than 90 days.
    """
    epoch_step: int | None = None
    """Steps of this epoch that are done, or of a loop without epochs."""
    epoch_steps: int | None = None
    """Steps of each epoch, or of a loop without epochs.

    None while nobody knows how many there will be, and where they would take longer than 90 days.
    """
    time_left: float | None = None
    """Seconds until this `fit` or loop is done, by its recent pace, 0 once it is; None while nobody knows."""
    between_epochs: float | None = None
    """Seconds from the last step of an epoch to the end of its validation and callbacks, the median of the newest.

    None before the first epoch has ended: `time_left` does not count them then.
    """

    @property
    def share_done(self) -> float | None:
        """Share of the `fit` or loop that is done, 0 to 1; None where its length is not known."""
        if not self.epoch_steps or (self.epoch is None and self.epoch_step is None):
            return None
        # Under a parameter server only whole epochs are known to be done.
        within = min(1.0, (self.epoch_step or 0) / self.epoch_steps)
        if self.time_left == 0:  # a callback may end a `fit` before its last epoch
            return 1.0
        if self.epoch is None:
            return within
        return None if not self.epochs else min(1.0, (self.epoch + within) / self.epochs)


TRAINING_DISPLAYS: Mapping[str, Display] = {
    each.name: each.metadata["display"] for each in fields(Training) if each.metadata
}
"""Displays of the numbers of `Training`, by the names of their fields."""
_LOGGED = Display("as Keras logs it")


def display_of(name: str) -> Display:
    """Return the display of a field of `Training`, or of a number of its `logs`."""
    return TRAINING_DISPLAYS.get(name, _LOGGED)


def shown_name(name: str) -> str:
    """Return the name of a number for people; a log keeps the name that the program gives it."""
    return name.replace("_", " ") if name in TRAINING_DISPLAYS else name


def furthest_behind(trainings: Iterable[Training]) -> Training | None:
    """Return the training that will be done last, of tasks that train one model; where no length is known, any one."""

    def rank(training: Training) -> tuple[bool, float, float]:
        share = training.share_done
        return share is None, -(training.time_left or 0.0), share or 0.0

    return min(trainings, key=rank, default=None)


def paired(names: Iterable[str]) -> list[str]:
    """Return the names in their order, but that of a validation, `val_loss`, after that of the training, `loss`."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(places, key=lambda name: places.get(name.removeprefix("val_"), places[name]))


def training_numbers(training: Training | None) -> dict[str, float]:
    """Return the known numbers that are shown, fields and then logs, by name, in the units of people."""
    if training is None:
        return {}
    read = ((name, getattr(training, name), display.offset) for name, display in TRAINING_DISPLAYS.items())
    numbers = {name: value + offset for name, value, offset in read if value is not None}
    return {**numbers, **{log.name: log.value for log in training.logs if log.value is not None}}
