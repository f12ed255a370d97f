"""Python stacks of a task's threads, as `faulthandler` writes them: their frames, and equal stacks of many tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster.task import Task

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_OF_TFSCALE = re.compile(r"/tfscale/(trainer|core|agent)/")
_PACKAGES = re.compile(r"/(site|dist)-packages/|^<")
_STANDARD = re.compile(r"/lib/python3[^/]*/(?!site-packages|dist-packages)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call of a stack."""

    file: str
    line: str
    function: str

    @property
    def is_of_tfscale(self) -> bool:
        return bool(_OF_TFSCALE.search(self.file))

    @property
    def is_standard(self) -> bool:
        """True for a file of Python's standard library."""
        return bool(_STANDARD.search(self.file))

    @property
    def is_programs(self) -> bool:
        """True for a file of the program itself: of no package, of no library, and not of tfscale."""
        return not (self.is_of_tfscale or self.is_standard or _PACKAGES.search(self.file))

    @property
    def place(self) -> str:
        return f"{Path(self.file).name}, line {self.line} ({self.function})"

    @property
    def short_file(self) -> str:
        """The file below its package's or library's folder; of the program its folder and name."""
        for folder in (_PACKAGES, _STANDARD):
            if (match := folder.search(self.file)) is not None and match.end() > 1:
                return self.file[match.end() :]
        return "/".join(Path(self.file).parts[-2:])


def frames_of(text: str) -> list[StackFrame]:
    """Return the frames of one thread, the newest first."""
    return [StackFrame(match["file"], match["line"], match["function"]) for match in _FRAME.finditer(text)]


def equal_stacks(stacks: Mapping[Task, str]) -> list[tuple[str, Sequence[Task]]]:
    """Return each stack with its tasks, the most frequent first; stacks that differ only in addresses are equal."""
    groups: dict[str, list[Task]] = {}
    for task, text in stacks.items():
        groups.setdefault(_ADDRESS.sub("0x", text.strip()), []).append(task)
    return sorted(groups.items(), key=lambda group: -len(group[1]))
