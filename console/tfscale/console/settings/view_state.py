"""State of the screen that is kept from one start to the next: columns, order, theme. It is no configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tfscale.core.files.whole_file import write_whole
from tfscale.core.settings.user_folders import user_state_folder


@dataclass(frozen=True, slots=True)
class View:
    """Choices of the operator; None where never chosen."""

    columns: tuple[str, ...] | None = None
    sort: str | None = None
    is_reversed: bool | None = None
    group: str | None = None
    theme: str | None = None
    measure: str | None = None
    """Measure of the heat map."""


@dataclass(slots=True)
class ViewFile:
    """File that keeps a view; without a path nothing is kept."""

    path: Path | None = None
    view: View = field(default_factory=View)

    @classmethod
    def at(cls, path: Path) -> ViewFile:
        """Read the view that the file at `path` keeps.

        An absent or unreadable file gives an empty view: the next change writes the file anew.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            document = None
        return cls(path, _view(document) if isinstance(document, dict) else View())

    def keep(self, view: View) -> None:
        """Write the view to the file, whole or not at all. Raises OSError."""
        self.view = view
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(asdict(view), indent=1) + "\n")


def state_path(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/tfscale/console.json`."""
    return user_state_folder(environment) / "console.json"


def _view(document: dict[str, Any]) -> View:
    choices = {choice.name: document.get(choice.name) for choice in fields(View)}
    columns = choices.pop("columns")
    is_reversed = choices.pop("is_reversed")
    return View(
        columns=tuple(map(str, columns)) if isinstance(columns, list) else None,
        is_reversed=is_reversed if isinstance(is_reversed, bool) else None,
        **{name: value for name, value in choices.items() if isinstance(value, str)},
    )
