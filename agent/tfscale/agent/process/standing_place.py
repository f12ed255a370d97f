"""The line of a program at which its process stands, found in the stacks of its threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
_PACKAGES = re.compile(r"/(site|dist)-packages/|/tfscale/(trainer|core|agent)/|^<")
_STANDARD = re.compile(r"/lib/python3[^/]*/(?!site-packages|dist-packages)")
_CALLERS = {
    "its input": re.compile(r"from_generator_op|/data/ops/|py_dataset_adapter|generator_data_adapter"),
    "Python that its graph calls": re.compile(r"script_ops"),
}
"""Files of TensorFlow and Keras that call a program, by words for what they call. Of `tf.py_function` they do not show
whether it is in the input or in the step."""


@dataclass(frozen=True, slots=True)
class _Frame:
    file: str
    line: str
    function: str

    @property
    def is_programs(self) -> bool:
        return not _PACKAGES.search(self.file) and not _STANDARD.search(self.file)

    @property
    def place(self) -> str:
        return f"{Path(self.file).name}, line {self.line} ({self.function})"


def standing_place(stacks: str) -> str:
    """Return a clause with the line at which the program stands, from the stacks, the main thread's first.

    Empty where no thread is in the program's own code.
    """
    main, *others = [_frames(block) for block in stacks.split("\n\n")] or [[]]
    if (frame := _innermost(main)) is not None:
        return f"its program stands at {frame.place}"
    for frames in others:
        if (frame := _innermost(frames)) is not None:
            whose = (words for words, by in _CALLERS.items() if any(by.search(each.file) for each in frames))
            return f"{next(whose, 'a thread of its program')} stands at {frame.place}"
    called = next((frame for frame in main if frame.is_programs), None)
    return "" if called is None else f"its program waits in TensorFlow, called at {called.place}"


def _frames(block: str) -> list[_Frame]:
    return [_Frame(match["file"], match["line"], match["function"]) for match in _FRAME.finditer(block)]


def _innermost(frames: Sequence[_Frame]) -> _Frame | None:
    """Return the newest frame outside the standard library, if it is the program's."""
    own = next((frame for frame in frames if not _STANDARD.search(frame.file)), None)
    return own if own is not None and own.is_programs else None
