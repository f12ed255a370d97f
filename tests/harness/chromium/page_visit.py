"""Visit of a page of `tfscale-console --serve` in a Chromium of its own process, which keys and clicks lead on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_VISITOR = Path(__file__).with_name("page_visitor.py")
_PATIENCE = 90.0


def visit(url: str, pictures: Path, steps: Sequence[tuple[str, str]], size: str = "1000x600") -> list[str]:
    """Wait for each step's words, keep a picture of the page, and press its key (`@words`: click); return the texts."""
    command = [sys.executable, _VISITOR, url, pictures, size, *(word for step in steps for word in step)]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        told, _ = begun.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        begun.kill()
        told, _ = begun.communicate()
    shown: list[str] = [json.loads(line) for line in told.splitlines()]
    assert len(shown) == len(steps), f"browser: no {steps[len(shown)][0]!r} after\n{shown[-1] if shown else 'nothing'}"
    return shown
