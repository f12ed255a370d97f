"""`tfscale-console compare`: whether new runs are slower than those before."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfscale.console.gate.gate import Outcome, gate
from tfscale.console.gate.gate_formats import WRITERS, as_text
from tfscale.console.gate.gated_run import CONTRACT
from tfscale.console.gate.gated_runs import read_set
from tfscale.console.settings.options import GATE
from tfscale.console.settings.written_files import refuse_overwriting
from tfscale.core.comparison.judgement import MARGIN
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_output
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.settings.precedence import flag

_STATUS = {
    Outcome.PASSED: ExitStatus.WELL,
    Outcome.FAILED: ExitStatus.UNHEALTHY,
    Outcome.UNDECIDED: ExitStatus.NOT_YET,
}


def run_gate(sets: Sequence[str], flags: Mapping[str, Any]) -> int:
    """Compare two sets of runs, and return the exit status. Raises TfscaleError."""
    values = {name: GATE[name].parse(text, flag(name)) for name, text in flags.items()}
    across: tuple[str, ...] = values.get("across", ())
    if unknown := [word for word in across if word not in CONTRACT]:
        raise UsageError(f"--across {unknown[0]}: use one of {', '.join(CONTRACT)}")
    base, new = map(read_set, sets)
    found = gate(base, new, values.get("max_regression", MARGIN), across)
    out: Path | None = values.get("out")
    text = WRITERS[values.get("format", "text")](found)
    if out is None:
        sys.stdout.write(text)
    else:
        refuse_overwriting([("--out", out)], [("a run", run.path) for run in [*base, *new]])
        try:
            write_output(out, text)
        except OSError as error:
            raise UsageError(f"--out {out}: {error.strerror}") from None
        sys.stdout.write(as_text(found))
    sys.stdout.flush()
    return _STATUS[found.outcome]
