"""Columns of the host table: what each says of a host, and which of them fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from rich.segment import Segment
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.hosts.host_facts import HostFacts, Hosts
from tfscale.console.tui.widgets.task_readings import traffic
from tfscale.core.text import data_rate, data_size, listing, percent, plural

_CROWDED = 0.25
"""Share of the cores that others must use to be marked: less hardly slows a task down."""
_BAR = 10
_GAP = 2


@dataclass(frozen=True, slots=True)
class HostColumn:
    """One column: its heading, its cells, and the text of a host with its tone."""

    name: str
    width: int
    cell: Callable[[HostFacts, Hosts], tuple[str, str]]
    """Text, and the name of its colour: `text`, `dim`, `bold`, or a severity."""
    is_right: bool = False


def _state(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    return facts.state


def _tasks(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    return (listing([*map(str, facts.tasks)], 3), "text") if facts.views else ("none", "dim")


def _others(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    if (cores := facts.cores) is None:
        return "", "dim"
    _own, others, total = cores
    return f"{others:.1f} of {total}", "warning" if others > _CROWDED * total else "dim"


def _own(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    return ("", "dim") if facts.cores is None else (f"{facts.cores[0]:.1f}", "text")


def _link(facts: HostFacts, hosts: Hosts) -> tuple[str, str]:
    troubled = hosts.troubled.get(facts.address, ())
    if not troubled:
        return "", "dim"
    first, more = troubled[0], f" +{len(troubled) - 1}" if len(troubled) > 1 else ""
    way, other = ("to", first.receiver) if first.sender == facts.address else ("from", first.sender)
    manner = str(first.trouble.evidence.get("manner", "slow")) if first.trouble else "slow"
    return f"{manner} {way} {other}{more}", first.trouble.severity if first.trouble else "warning"


def _memory(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    sample = facts.sample
    return ("", "dim") if sample is None else (f"{percent(sample.memory_used / max(1, sample.memory_total))}", "text")


def _gpus(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    used = [gpu.utilisation for gpu in facts.gpus if gpu.utilisation is not None]
    if not facts.gpus:
        return "", "dim"
    text = f"{len(facts.gpus)}" + (f" at {percent(mean(used))}" if used else "")
    if others := facts.foreign_gpus:
        return f"{text}, others {others}", "warning"
    return text, "text"


def _network(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    received, sent = traffic(facts.sample)
    return ("", "dim") if received is None else (f"{data_rate(received)} {data_rate(sent)}", "dim")


def _disk(facts: HostFacts, _: Hosts) -> tuple[str, str]:
    disk = facts.sample.disk if facts.sample else None
    return ("", "dim") if disk is None else (data_size(disk.free), "dim")


def columns_for(hosts: Hosts, width: int) -> Sequence[HostColumn]:
    """Return the columns that fit into `width` cells, in their order."""
    longest = max((len(facts.address) for facts in hosts.facts), default=4)
    names = [facts.name for facts in hosts.facts]
    has_names = len({*filter(None, names)}) > 1
    digits = len(str(len(hosts.facts)))
    ranked = [
        (0, HostColumn("#", digits, lambda facts, _: (str(facts.place), "dim"), is_right=True)),
        (0, HostColumn("host", min(28, max(4, longest)), lambda facts, _: (facts.address, "bold"))),
        (7, HostColumn("name", min(16, max(map(len, names), default=4)), lambda facts, _: (facts.name, "dim"))),
        (1, HostColumn("state", 2 + _longest(_state, hosts), _state)),
        (2, HostColumn("tasks", min(24, _longest(_tasks, hosts)), _tasks)),
        (4, HostColumn("cores", 5, _own, is_right=True)),
        (6, HostColumn("", _BAR, lambda _facts, _: ("", "bar"))),
        (5, HostColumn("by others", 10, _others)),
        (8, HostColumn("memory", 6, _memory, is_right=True)),
        (9, HostColumn("GPUs", 18, _gpus)),
        (10, HostColumn("in and out", 19, _network)),
        (11, HostColumn("disk free", 9, _disk)),
        (3, HostColumn("slow link", min(34, 2 + _longest(_link, hosts)), _link)),
    ]
    placed, room = set[int](), width
    for rank, column in sorted(ranked, key=lambda each: each[0]):
        if (column.name == "name" and not has_names) or not _says(column, hosts):
            continue
        if rank == 0 or column.width + _GAP <= room:
            placed.add(id(column))
            room -= column.width + _GAP
    return [column for _, column in ranked if id(column) in placed]


def _longest(cell: Callable[[HostFacts, Hosts], tuple[str, str]], hosts: Hosts) -> int:
    return max(5, *(len(cell(facts, hosts)[0]) for facts in hosts.facts), 0)


def _says(column: HostColumn, hosts: Hosts) -> bool:
    """Decide whether any host has something in this column."""
    if column.name == "":
        return any(facts.cores for facts in hosts.facts)
    return any(column.cell(facts, hosts)[0] for facts in hosts.facts)


def cells(facts: HostFacts, hosts: Hosts, column: HostColumn, appearance: Appearance, background: str) -> list[Segment]:
    """Return the cells of one host in one column, with a gap behind."""
    palette = appearance.palette
    text, tone = column.cell(facts, hosts)
    if tone == "bar":
        return [*_core_bar(facts, appearance, background), Segment(" " * _GAP, style(None, background))]
    if column.name == "state":
        sign = appearance.glyphs.waiting if not facts.views and not facts.cordon else appearance.sign(tone)
        text = f"{sign} {text}"
    elif column.name == "slow link" and text:
        text = f"{appearance.sign(tone)} {text}"
    colour = palette.severities.get(tone, palette.dim if tone == "dim" else palette.text)
    words = appearance.spell(fit(text, column.width, right=column.is_right))
    return [Segment(words + " " * _GAP, style(colour, background, tone == "bold" or None))]


def _core_bar(facts: HostFacts, appearance: Appearance, background: str) -> list[Segment]:
    """Return a bar of all cores: those of the host's tasks, those of others, and the idle ones."""
    palette, glyphs = appearance.palette, appearance.glyphs
    if (cores := facts.cores) is None:
        return [Segment(" " * _BAR, style(None, background))]
    own, others, total = cores
    first = min(_BAR, round(_BAR * own / max(1, total)))
    second = min(_BAR - first, round(_BAR * others / max(1, total)))
    signs = ("t", "o", ".") if appearance.letters or not glyphs.block else (glyphs.block, glyphs.block, glyphs.rule)
    parts = zip(signs, (first, second, _BAR - first - second), ("compute", "input", "wait"), strict=True)
    return [Segment(sign * count, style(palette.parts[part], background)) for sign, count, part in parts if count]


def core_words(facts: HostFacts) -> str:
    """Return who uses the host's cores and GPUs, as a sentence; empty where that was not measured."""
    words = []
    if (cores := facts.cores) is not None:
        own, others, total = cores
        words.append(f"its tasks use {own:.1f} of {plural(total, 'core')}, other programs {others:.1f}")
    if others := facts.foreign_gpus:
        words.append(f"other programs use {plural(others, 'GPU')}")
    return "; ".join(words)
