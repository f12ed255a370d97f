"""Copies of the screen that leave it: text for the clipboard, and all of it as a picture and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App

_FILE = "copied.txt"
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Copied:
    """Text that goes to the clipboard, and to a file: a terminal may refuse the clipboard, and does not say so."""

    text: str
    folder: Path | None
    """Folder of the file; None: no file is written."""

    def kept(self) -> str:
        """Write the file, and return what was copied in a few words."""
        first = self.text.partition("\n")[0]
        said = first if len(first) <= _MOST_SHOWN else f"{first[: _MOST_SHOWN - 3]}..."
        if self.folder is None:
            return said
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / _FILE).write_text(f"{self.text}\n", encoding="utf-8")
        except OSError as error:
            return f"{said}\nnot in a file: {error}"
        return f"{said}\nalso in {self.folder / _FILE}"


def save_screen(app: App[Any], folder: Path, name: str) -> tuple[Path, Path]:
    """Write the screen as a picture in a frame (SVG) and as text, and return both files. Raises OSError."""
    picture, text = folder / f"{name}.svg", folder / f"{name}.txt"
    picture.write_text(app.export_screenshot(title=name), encoding="utf-8")
    lines = [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return picture, text
