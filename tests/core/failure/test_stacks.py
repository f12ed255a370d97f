"""Frames of stacks as faulthandler writes them: whose they are, and their short files."""

from __future__ import annotations

import faulthandler
import tempfile

from tfscale.core.failure.stacks import frames_of

PLACES = {
    "/home/ada/job/train.py": ("job/train.py", True, False),
    "/venv/lib/python3.11/site-packages/keras/src/trainer.py": ("keras/src/trainer.py", False, False),
    "/usr/lib/python3.11/threading.py": ("threading.py", False, False),
    "/venv/lib/python3.11/site-packages/tfscale/trainer/probe.py": ("tfscale/trainer/probe.py", False, True),
    "<frozen runpy>": ("<frozen runpy>", False, False),
}  # fmt: skip


def test_a_frame_is_the_programs_a_librarys_or_tfscales() -> None:
    text = "\n".join(f'  File "{file}", line 7 in step' for file in PLACES)
    seen = {frame.file: (frame.short_file, frame.is_programs, frame.is_of_tfscale) for frame in frames_of(text)}
    assert seen == PLACES


def test_the_own_stack_of_this_test_is_read() -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        frames = frames_of(file.read())
    assert any(frame.function == "test_the_own_stack_of_this_test_is_read" and frame.is_programs for frame in frames)
    assert any(frame.short_file.startswith("_pytest/") for frame in frames)
