"""File that keeps baselines over runs (docs/reference/diagnoses.md#slowdowns-of-all)."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfscale.console.analysis.baselines.baseline import PARTS, Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey, Work
from tfscale.core.files.whole_file import write_whole
from tfscale.core.settings.user_folders import user_state_folder
from tfscale.core.validation import is_moment
from tfscale.core.wire.json_records import SchemaError, decode, encode

_logger = logging.getLogger(__name__)
VERSION = 1
"""Version of the file; rises when a reader of the older would misread the newer."""
NAME = "baselines.json"
MOST_OF_ONE, MOST = 8, 256
"""Newest baselines that are kept of one key, and of all."""
MOST_BYTES = 1 << 20
"""Bytes of the file; the oldest baselines give way."""
_PATIENCE = 2.0
"""Seconds that the console waits at its end for an unfinished write."""


class BaselineFile:
    """Baselines in a file that several consoles may share. A failure is told once, and the console goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._own: dict[tuple[str, Work], Baseline] = {}
        """Baselines that this console has measured, by attempt and work."""
        self._is_usable = True
        self._writing: threading.Thread | None = None
        self._kept = self._read()

    def recall(self, key: BaselineKey) -> Sequence[Baseline]:
        """Return the baselines of the key's program and hardware, of any size."""
        with self._lock:
            return [
                each
                for each in self._kept
                if each.key and (each.key.program, each.key.hardware) == (key.program, key.hardware)
            ]

    def keep(self, baseline: Baseline) -> None:
        """Keep this baseline if it is the fastest of its attempt, and write the file soon."""
        with self._lock:
            self._own[baseline.attempt, baseline.facts.work] = baseline
        if self._is_usable and (self._writing is None or not self._writing.is_alive()):
            # A file server that does not answer must not hold up the diagnosis.
            self._writing = threading.Thread(target=self._write, name="baselines", daemon=True)
            self._writing.start()

    def close(self) -> None:
        """Begin to write all that is unwritten, and wait a moment for it."""
        if self._writing is not None:
            self._writing.join(_PATIENCE)
            if self._is_usable and not self._writing.is_alive():
                last = threading.Thread(target=self._write, name="baselines", daemon=True)
                last.start()
                last.join(_PATIENCE)

    def _write(self) -> None:
        """Read the entries of other consoles, add this console's, and replace the file."""
        others = self._read()
        with self._lock:
            own = [*self._own.values()]
        if not self._is_usable:
            return
        kept = bounded(fastest_of_each([*others, *own]))
        text = _text(kept)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, text, is_private=True)
        except OSError as error:
            self._give_up(f"cannot be written ({error.strerror})", "what is learnt of this run is not kept")
            return
        with self._lock:
            self._kept = kept

    def _read(self) -> list[Baseline]:
        """Return the entries of the file; none if it is absent or damaged."""
        try:
            return read_baselines(self._path)
        except OSError as error:
            self._give_up(f"cannot be read ({error.strerror})", "earlier runs are not compared with")
        except ValueError as error:
            self._give_up(f"is damaged ({error})", "earlier runs are not compared with; remove it to begin anew")
        return []

    def _give_up(self, problem: str, consequence: str) -> None:
        if self._is_usable:
            self._is_usable = False
            _logger.warning("%s %s: %s", self._path, problem, consequence)


def read_baselines(path: Path) -> list[Baseline]:
    """Return the entries of a file, none if it is absent. Raises OSError, and ValueError if it is damaged."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(2 * MOST_BYTES)
        document = json.loads(text)
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']}")
        return [decoded(each) for each in document["baselines"]]
    except FileNotFoundError:
        return []
    except (SchemaError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(error) from None


def open_baselines(environment: Mapping[str, str]) -> BaselineFile | None:
    """Return the file of this user, None on a machine without a folder for it."""
    folder = user_state_folder(environment)
    return BaselineFile(folder / NAME) if folder.is_absolute() else None


def fastest_of_each(baselines: Sequence[Baseline]) -> list[Baseline]:
    """Return the fastest baseline of each attempt and kind of work."""
    fastest: dict[object, Baseline] = {}
    for each in baselines:
        name = each.attempt, each.key, each.facts.work
        if name not in fastest or each.step < fastest[name].step:
            fastest[name] = each
    return [*fastest.values()]


def bounded(baselines: Sequence[Baseline]) -> list[Baseline]:
    """Return the newest baselines up to the kept number, the oldest first."""
    kept: list[Baseline] = []
    number: dict[BaselineKey | None, int] = {}
    for each in sorted(baselines, key=lambda each: each.begin, reverse=True):
        number[each.key] = number.get(each.key, 0) + 1
        if number[each.key] <= MOST_OF_ONE and len(kept) < MOST:
            kept.append(each)
    return kept[::-1]


def _text(baselines: Sequence[Baseline]) -> str:
    """Return the contents of the file, without the oldest baselines if too long."""
    lines = [json.dumps(encode(each)) for each in baselines]
    size = sum(map(len, lines)) + 2 * len(lines)
    while lines and size > MOST_BYTES - 100:
        size -= len(lines.pop(0)) + 2
    body = ",\n".join(lines)
    return f'{{"version": {VERSION}, "baselines": [\n{body}\n]}}\n'


def decoded(document: Mapping[str, Any]) -> Baseline:
    """Return the baseline that the file describes. Raises ValueError and SchemaError."""
    baseline = decode(Baseline, document)
    times = (*baseline.usual, baseline.most, baseline.begin, baseline.end)
    if len(baseline.usual) != len(PARTS) or not all(map(is_moment, times)) or baseline.step <= 0:
        raise ValueError(f"a baseline with the times {baseline.usual}")
    key, facts = baseline.key, baseline.facts
    numbers = (key.size if key else None, 1 if facts.work.batch is None else facts.work.batch)
    words = (*facts.command, *facts.hosts, *facts.files)
    if not all(type(number) is int and number > 0 for number in numbers) or not all(
        type(word) is str for word in words
    ):
        raise ValueError(f"a baseline with the facts {facts}")
    return baseline
