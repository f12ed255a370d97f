"""Program that writes the report of a watched run beside its recordings: `python -m ...report_writer FOLDER`.

It is a process of its own: a long run takes minutes, and the memory of a replay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tfscale.console.report.formats.html_page import as_html
from tfscale.console.report.formats.report_text import as_text
from tfscale.console.report.report_builder import report_recorded
from tfscale.console.report.run_file import open_run
from tfscale.console.report.run_report import RunReport
from tfscale.console.watch.run_folder import REPORTS
from tfscale.core.errors import TfscaleError
from tfscale.core.files.whole_file import write_whole

_WRITERS: tuple[Callable[[RunReport], str], ...] = (as_html, as_text)
_NICE = 10
"""Niceness: nobody waits for it, and trainings may run beside it."""


def main(folder: Path) -> str:
    """Write the files; return why they are not written, empty if they are."""
    try:
        report = report_recorded(folder, open_run(folder))
        for name, write in zip(REPORTS, _WRITERS, strict=True):
            write_whole(folder / name, write(report))
    except TfscaleError as error:
        return str(error)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


if __name__ == "__main__":
    if sys.platform != "win32":
        os.nice(_NICE)
    sys.exit(main(Path(sys.argv[1])) or 0)
