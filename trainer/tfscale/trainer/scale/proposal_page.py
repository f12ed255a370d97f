"""Page for a proposal: measured sizes with their plot, on which hardware and by which versions, and what is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from tfscale.core.errors import TfscaleError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.plots.picture import THEMES, picture
from tfscale.core.text import moment, plural
from tfscale.core.version import version_line
from tfscale.trainer.scale.measured_sizes import MeasuredSizes
from tfscale.trainer.scale.scaling_report import contention_cells, sentences, size_cells
from tfscale.trainer.scale.sizes_chart import sizes_chart


def write_proposal(sizes: MeasuredSizes, path: Path, theme: str) -> None:
    """Write the page of at least one measured size, as HTML in one file or as Markdown with an SVG beside it.

    Raises TfscaleError.
    """
    chart = sizes_chart(sizes)
    drawn, picture_path = picture(chart, "svg", theme).decode(), path.with_suffix(".svg")
    is_html = path.suffix == ".html"
    environment = Environment(autoescape=is_html, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["words"] = str if is_html else _markdown
    form = "proposal.html" if is_html else "proposal.md"
    template = environment.from_string(files(__package__).joinpath(form).read_text(encoding="utf-8"))
    page = template.render(
        title=chart.title,
        sentences=list(sentences(sizes)),
        sizes=size_cells(sizes),
        contention=contention_cells(sizes),
        # The head of an SVG file has no place in a page.
        drawn=drawn[drawn.index("<svg") :],
        picture=picture_path.name,
        facts=dict(_facts(sizes)),
        missing=list(_not_measured(sizes)),
        theme=THEMES[theme],
    )
    try:
        if not is_html:
            write_whole(picture_path, drawn)
        write_whole(path, page)
    except OSError as error:
        raise TfscaleError(f"--proposal {path}: {error.strerror}") from None


def _facts(sizes: MeasuredSizes) -> Iterator[tuple[str, str]]:
    """Yield what was run, when and where; several values where the runs differ."""
    plan, runs = sizes.plan, [run for size in sizes.measured for run in size.measured]
    yield "command", shlex.join([*(["tfscale-train", "run", plan.program] if plan.program else []), *plan.words])
    steps = ", ".join(sorted({f"{run.steps}" for run in runs}))
    yield "runs", f"{plural(plan.runs, 'run')} a size in turns, of {steps} steps; the first tenth of these is left out"
    if began := [run.began for run in runs if run.began]:
        yield "measured", f"{moment(min(began))} to {moment(max(began))} (begins of runs)"
    if loads := [run.load for run in runs if run.load is not None]:
        yield "load at their begins", f"{min(loads):.1f} to {max(loads):.1f} processes"
    yield "hardware", _distinct([run.machine for run in runs])
    for name in {name: None for run in runs for name in run.software}:
        yield name.replace("_", " "), _distinct([run.software.get(name, "") for run in runs])
    yield "reported by", version_line()


def _distinct(values: list[str]) -> str:
    return "; ".join(dict.fromkeys(value or "not known" for value in values))


def _not_measured(sizes: MeasuredSizes) -> Iterator[str]:
    plan, largest = sizes.plan, sizes.measured[-1]
    for size in (*sizes.failed, *sizes.missing):
        yield f"{plural(size.number, plan.noun)}: {size.reason or 'not all runs are made'}"
    if sizes.forecast:
        yield f"more than {plural(largest.workers, 'worker')}: the forecast is a rule, no measurement"
    if not plan.launcher:
        yield "GPUs: the workers ran on the CPU of one machine"
    if plan.launcher:
        yield "other hosts, and other programs on these"
    elif plan.link:
        yield "a real network: the links are of network namespaces on one machine, without switches and other traffic"
    else:
        yield "any network: the workers exchanged gradients over the loopback of one machine"
    if not plan.is_strong and not plan.workers:
        yield "what is learned: more workers make a larger global batch, which may need another learning rate"
    yield "start, compilation, evaluation and checkpoints: they are no part of a step"
    if plan.runs == 1:
        yield "how far two runs of one size differ: there is one run of each"
    if any(size.has_own_cores is False or sizes.is_shared(size) for size in sizes.measured):
        yield "workers with cores of their own: some sizes shared cores, as the table says"
    if not sizes.by_examples:
        yield "examples: the program does not tell them, so steps were counted"


def _markdown(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)
