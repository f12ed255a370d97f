"""Techniques of a program in the field's words, from the probe's counts."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.text import data_size

NARROW = ("bfloat16", "float16")
"""Types of gradients that half the bytes take on the wire."""


def technique_words(probe: ProbeStatus) -> Iterator[str]:
    """Yield a sentence for each technique that makes a step more than a plain step, or changes its exchange."""
    each = f"{probe.micro_batches} micro-batches" if probe.micro_batches else ""
    if (steps := probe.local_steps) is not None:
        yield f"local SGD: 1 all-reduce in {steps} steps{f' of {each}' if each else ''}, counted here as one step"
    elif each:
        yield f"gradient accumulation: 1 {'all-reduce' if probe.collective else 'update'} for {each}"
    if (policy := probe.dtype_policy) is not None and policy.startswith("mixed_"):
        yield f"mixed precision: layers compute in {policy.removeprefix('mixed_')} (Keras's global policy)"
    if probe.wire_type in NARROW:
        yield f"gradients in {probe.wire_type} on the wire"
    if (gathered := probe.gathered_bytes_per_step) is not None:
        yield f"{_gathered(probe)}: {data_size(gathered)} all-gathered a step to each other replica"


def _gathered(probe: ProbeStatus) -> str:
    if probe.dense_bytes_per_step is None:
        return "entries of gradients"
    return f"sparse gradients (IndexedSlices; dense they would be {data_size(probe.dense_bytes_per_step)})"
