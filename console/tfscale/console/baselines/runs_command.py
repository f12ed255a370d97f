"""`tfscale-console runs`: earlier runs of this user as a list, and as a plot."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.console.baselines.baseline_file import NAME, read_baselines
from tfscale.console.baselines.known_runs import as_json, as_lines, known_runs, runs_chart
from tfscale.console.settings.options import EARLIER
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.plots.plot_flags import HERE, draw
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.settings.precedence import flag
from tfscale.core.settings.user_folders import user_state_folder

_logger = logging.getLogger(__name__)


def list_runs(words: Sequence[str], flags: Mapping[str, Any], environment: Mapping[str, str]) -> int:
    """Print the runs whose program has all words in its name, and return the exit status. Raises TfscaleError."""
    values = {name: EARLIER[name].parse(text, flag(name)) for name, text in flags.items() if name != "json"}
    path = user_state_folder(environment) / NAME
    try:
        found = known_runs(read_baselines(path))
    except OSError as error:
        raise TfscaleError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: is damaged ({error}); remove it to begin anew") from None
    if not found:
        _logger.warning("%s: no run is known yet: a console has to watch one for two minutes", path)
        return ExitStatus.NOT_YET
    chosen = [known for known in found if all(word in known.name for word in words)]
    if not chosen:
        raise UsageError(f"runs: none is known of {' '.join(words)}; the newest is of {found[-1].key.program}")
    if flags.get("json"):
        print(json.dumps([as_json(known) for known in chosen]))
    else:
        print("\n\n".join("\n".join(as_lines(known)) for known in chosen))
    if values.get("plot") == HERE:
        print()
    draw(runs_chart(chosen[-1]), values.get("plot"), values.get("plot_theme", "light"))
    return ExitStatus.WELL
