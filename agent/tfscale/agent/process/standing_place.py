"""The line of a program at which its process stands, found in the stacks of its threads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfscale.core.failure.stacks import StackFrame, frames_of

_CALLERS = {
    "its input": re.compile(r"from_generator_op|/data/ops/|py_dataset_adapter|generator_data_adapter"),
    "Python that its graph calls": re.compile(r"script_ops"),
}
"""Files of TensorFlow and Keras that call a program, by words for what they call. Of `tf.py_function` they do not show
whether it is in the input or in the step."""


def standing_place(stacks: str) -> str:
    """Return a clause with the line at which the program stands, from the stacks, the main thread's first.

    Empty where no thread is in the program's own code.
    """
    main, *others = [frames_of(block) for block in stacks.split("\n\n")] or [[]]
    if (frame := _innermost(main)) is not None:
        return f"its program stands at {frame.place}"
    for frames in others:
        if (frame := _innermost(frames)) is not None:
            whose = (words for words, by in _CALLERS.items() if any(by.search(each.file) for each in frames))
            return f"{next(whose, 'a thread of its program')} stands at {frame.place}"
    called = next((frame for frame in main if frame.is_programs), None)
    return "" if called is None else f"its program waits in TensorFlow, called at {called.place}"


def _innermost(frames: Sequence[StackFrame]) -> StackFrame | None:
    """Return the newest frame outside the standard library, if it is the program's."""
    own = next((frame for frame in frames if not frame.is_standard), None)
    return own if own is not None and own.is_programs else None
