"""The console's program, and an ear: $HEARD gets a line of JSON each second with what its screen says.

ear.py --cluster cluster.toml --headless ...        live
ear.py export run.tfrec --only events --out ...     a recording of it
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tfscale.console.cli import main
from tfscale.console.engine.model import Snapshot
from tfscale.console.export.headless import Headless
from tfscale.console.tui.widgets.appearance.state_text import flag_text
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.headline_pane import headline_lines

_WIDE = 4000
"""Columns of a screen on which no sentence is cut off."""


def heard(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the screen says: the sentence on top, the advice below it, the rate, and the flags of the rows."""
    appearance = Appearance()
    lines = [line.plain for line in headline_lines(snapshot, appearance, _WIDE)]
    flags = {str(view.task): flag_text(view, snapshot.at, appearance.glyphs)[0] for view in snapshot.tasks}
    return {
        "at": snapshot.at,
        "sentence": lines[0][2:],
        "advice": lines[1][2:] if len(lines) > 1 else "",
        "rate": snapshot.findings.steps_per_second,
        "flags": {task: flag for task, flag in flags.items() if flag},
    }


def listen(path: Path) -> None:
    """Let the headless console write down each snapshot, too."""
    take = Headless.snapshot_taken

    def take_and_write(console: Headless, snapshot: Snapshot) -> None:
        take(console, snapshot)
        with path.open("a") as file:
            file.write(json.dumps(heard(snapshot), ensure_ascii=False) + "\n")

    Headless.snapshot_taken = take_and_write  # type: ignore[method-assign]


if __name__ == "__main__":
    listen(Path(os.environ["HEARD"]))
    main()
