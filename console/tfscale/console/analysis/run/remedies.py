"""Remedies: changes of the program or the cluster, with the gain that a model predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfscale.console.analysis.run import gain_models
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.technique_words import NARROW
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.records.diagnosis import Remedy
from tfscale.core.text import plural

SMALL = 64_000
"""Bytes up to which an all-reduce takes the time of its messages, not of its bytes: at 1 Gbit/s these take half a
millisecond. A larger limit would hide remedies that help, a smaller one recommend those that do not."""
MOSTLY = 0.5
"""Share of the volume from which on an exchange counts as an all-gather: above the half, most of its remedies fit."""


def cast_gradients(load: Load) -> Remedy:
    gain = gain_models.half_the_bytes(load.step, load.transfer)
    return Remedy("gradients cast to bfloat16 for the wire", gain, "half the bytes", at_most=True)


def accumulate(load: Load) -> Remedy:
    """Return four times the steps, or micro-batches, of each all-reduce, for a program that has several already."""
    gain = gain_models.accumulated(load.step, load.transfer, 4)
    if (steps := load.local_steps) > 1:
        return Remedy(f"an all-reduce in {4 * steps} local steps, not {steps}", gain, "a quarter of the all-reduces")
    instead = f" instead of {load.micro_batches}" if load.micro_batches > 1 else ""
    what = f"accumulating {4 * load.micro_batches} micro-batches of this size{instead}"
    return Remedy(what, gain, "a quarter of the all-reduces")


def enlarge_batch(load: Load) -> Remedy:
    growing = min(load.compute + load.input, load.step - load.transfer)
    if not load.dense:
        gain = gain_models.larger_batch(load.step, growing, 2)
        return Remedy("a batch twice as large", gain, "compute and input double")
    # Twice the examples use up to twice the rows of an embedding.
    rows = load.transfer * load.gathered_volume
    gain = gain_models.larger_batch(load.step, growing + rows, 2)
    return Remedy("a batch twice as large", gain, "compute, input and the rows that are gathered double")


def densify(load: Load) -> Remedy | None:
    """Return the remedy of dense gradients where they are fewer bytes on a ring than sparse ones; else None."""
    if load.payload is None or not load.dense:
        return None
    now = volume(load.payload, load.ranks, load.gathered)
    then = volume(load.payload * (1 - load.gathered) + load.dense, load.ranks)
    if then >= now:
        return None
    gain = gain_models.other_volume(load.step, load.transfer, now, then)
    what = "sparse gradients made dense (tf.convert_to_tensor) before they are reduced"
    return Remedy(what, gain, "an all-reduce instead of an all-gather", at_most=True)


def faster_links(load: Load) -> Remedy:
    gain = gain_models.faster_link(load.step, load.transfer, 2)
    return Remedy("links twice as fast", gain, "half the transfer", at_most=True)


def prefetch(load: Load) -> Remedy:
    gain = gain_models.prefetched(load.step, load.input)
    return Remedy("prefetching and parallel maps", gain, "input beside training", at_most=True)


def faster_devices(load: Load, devices: str) -> Remedy:
    gain = gain_models.half_the_compute(load.step, load.compute)
    return Remedy(f"{devices} twice as fast", gain, "half the compute", at_most=True)


def more_workers(load: Load) -> Remedy:
    gain = gain_models.more_workers(load.step, load.transfer, load.ranks, 2 * load.ranks, load.gathered)
    model = "ring all-reduce" if load.gathered_volume < MOSTLY else "all-gather, which grows with every worker"
    return Remedy(f"{2 * load.ranks} workers instead of {load.ranks}", gain, model, at_most=True)


def fewer_workers(load: Load) -> Remedy:
    to = load.ranks // 2
    gain = gain_models.fewer_workers(load.step, load.transfer, load.ranks, to, load.gathered)
    return Remedy(f"{plural(to, 'worker')} instead of {load.ranks}", gain, "a shorter ring, or none")


def for_communication(load: Load) -> tuple[Remedy, ...]:
    """Return remedies where the all-reduce takes much of each step."""
    links = () if _is_small(load) else (faster_links(load),)
    return (*_for_fewer_bytes(load), enlarge_batch(load), *links, *_without_gain(load))


def _is_small(load: Load) -> bool:
    """Decide whether the exchange is so small that fewer bytes or faster links save nothing."""
    return load.payload is not None and load.payload <= SMALL


def _for_fewer_bytes(load: Load) -> Iterator[Remedy]:
    """Yield remedies for fewer bytes on the wire that the program does not use yet."""
    if (dense := densify(load)) is not None:
        yield dense
    if load.wire_type not in NARROW and load.local_steps == 1 and not _is_small(load):
        yield cast_gradients(load)
    # Micro-batches add up dense gradients: those of an embedding would no longer be sparse.
    if not load.dense:
        yield accumulate(load)


def _without_gain(load: Load) -> Iterator[Remedy]:
    if load.dense:
        yield Remedy("embeddings on parameter servers, to which a worker sends the rows that it used")
    elif load.gathered_volume >= MOSTLY:
        yield Remedy("fewer entries to gather: beyond a few workers an all-reduce moves less")
    yield Remedy("fewer, stronger GPUs")


def for_input(load: Load) -> tuple[Remedy, ...]:
    """Return remedies where workers wait for their data."""
    return prefetch(load), Remedy("decoding the data once and caching it")


def for_compute(load: Load) -> tuple[Remedy, ...]:
    """Return remedies where the GPUs compute most of the time."""
    return more_workers(load), faster_devices(load, "GPUs"), Remedy("mixed precision")


FOR_CPU = (Remedy("more cores a host, fewer tasks on one host, or less preprocessing in the training process"),)
OUTSIDE = {
    "compile": (
        Remedy("tensors instead of Python numbers as arguments of tf.function, or reduce_retracing=True"),
        Remedy("batches of one shape (drop_remainder=True)"),
    ),
    "checkpoint": (Remedy("checkpoints less often, or written in the background (CheckpointOptions)"),),
    "evaluation": (Remedy("evaluation less often, or by an evaluator beside the training"),),
    "python": (
        Remedy("larger batches, or several steps in one call (steps_per_execution)"),
        Remedy("b on a task's page shows where its Python is"),
    ),
}
"""Remedies for the time outside of the steps, by bucket of goodput."""
FOR_GPU_MEMORY = (Remedy("a smaller batch on each GPU with gradient accumulation, or mixed precision"),)


def for_link(is_server: bool, uses: Sequence[float], workers: int, excess: float | None = None) -> tuple[Remedy, ...]:
    """Return remedies where the link of one task is full: its directions are in use for these shares of the time.

    Of uneven servers this one moves `excess` times its part.
    """
    cast = Remedy("gradients cast to bfloat16")
    if excess is not None:
        what = "variables spread evenly over the parameter servers"
        return Remedy(what, excess, "the busiest server moves no more than the others", at_most=True), cast
    if not is_server:
        return Remedy("a faster link"), cast
    gain = gain_models.more_servers(uses, max(workers, 1), 2)
    return Remedy("twice as many parameter servers", gain, "each server moves half", at_most=True), cast


def for_cluster(load: Load) -> Iterator[Remedy]:
    """Yield every change of the cluster or the program whose gain a model predicts, at a limit or not."""
    yield faster_devices(load, "devices")
    if load.input > 0:
        yield prefetch(load)
    if load.ranks < 2 or load.transfer <= 0:
        return
    links = () if _is_small(load) else (faster_links(load),)
    yield from (*_for_fewer_bytes(load), *links, enlarge_batch(load), more_workers(load), fewer_workers(load))


def for_stragglers(names: Sequence[str], slowdown: float) -> Remedy:
    """Return the repair of these stragglers, which now lengthen a step by `slowdown` (a factor)."""
    which = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Remedy(f"{which} as fast as the others", slowdown, "as long in a step as the median of the others")
