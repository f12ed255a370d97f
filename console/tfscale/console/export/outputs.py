"""Outputs of the headless console: lines or tables, to stdout or a file that is rotated by size."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol, TextIO

from tfscale.console.export.rows import Column
from tfscale.core.errors import UsageError
from tfscale.core.wire.json_records import Json

FORMATS = ("jsonl", "csv", "parquet")
WHOLE_FORMATS = ("perfetto", "tensorboard", "wandb", "mlflow")
"""Formats of `export` that hold a whole run, not one part of it."""
_ROW_GROUP = 65_536
"""Rows of a Parquet file that are written together."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Begins of a cell that spreadsheets run as a formula (OWASP, CSV injection)."""


class Output(Protocol):
    """Receiver of documents or rows in their order."""

    def write(self, row: Json) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def size(self) -> int:
        """Return the bytes written so far."""


class _Text:
    """File of text that counts its characters: stdout may be a pipe, without a position."""

    def __init__(self, file: TextIO) -> None:
        self._file = _Counted(file)

    def flush(self) -> None:
        self._file.file.flush()

    def close(self) -> None:
        self._file.file.close()

    def size(self) -> int:
        return self._file.written


class JsonLines(_Text):
    """File of one JSON object a line; the first is the header."""

    def __init__(self, file: TextIO, header: Json) -> None:
        super().__init__(file)
        self.write(header)
        self.flush()

    def write(self, row: Json) -> None:
        line = json.dumps(row, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        self._file.write(line + "\n")


class TextLines(_Text):
    """File of lines of text, the `line` of each row."""

    def write(self, row: Json) -> None:
        self._file.write(f"{row['line']}\n")


class Csv(_Text):
    """Table whose first line names its columns; an unknown cell is empty."""

    def __init__(self, file: TextIO, columns: tuple[Column, ...]) -> None:
        super().__init__(file)
        self._writer = csv.DictWriter(self._file, [name for name, _ in columns], lineterminator="\n")
        self._writer.writeheader()
        self.flush()

    def write(self, row: Json) -> None:
        self._writer.writerow({name: _inert(value) for name, value in row.items()})


def _inert(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: texts of a task or a log are others' words."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


class _Counted:
    """File to write to, and the number of characters so far."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.written = 0

    def write(self, text: str) -> int:
        self.written += len(text)
        return self.file.write(text)


class Parquet:
    """Parquet file; readable once it is closed."""

    def __init__(self, file: IO[bytes], columns: tuple[Column, ...]) -> None:
        """Open the writer. Raises UsageError where pyarrow is not installed."""
        arrow, parquet = _import_arrow()
        kinds = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
        self._arrow = arrow
        self._schema = arrow.schema([(name, kinds[kind]) for name, kind in columns])
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._file = file
        self._rows: list[Json] = []

    def write(self, row: Json) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROW_GROUP:
            self._write_rows()

    def flush(self) -> None:
        """Do nothing: row groups written by the second would make the file large and slow to read."""

    def close(self) -> None:
        if self._rows:
            self._write_rows()
        self._writer.close()
        self._file.close()

    def size(self) -> int:
        return self._file.tell()

    def _write_rows(self) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows = []


def _import_arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("--format parquet needs pyarrow: pip install 'tfscale[parquet]'") from None
    return pyarrow, pyarrow.parquet


class Rotated:
    """File that becomes `FILE.1` when it has `limit` bytes; FILE.1 becomes FILE.2, and so on up to `keep`."""

    def __init__(self, path: Path, limit: int, keep: int, begin: Callable[[], Output]) -> None:
        """Open the first file; `begin` opens the path anew."""
        self._path, self._limit, self._keep = path, limit, keep
        self._begin = begin
        self._output = begin()

    def write(self, row: Json) -> None:
        self._output.write(row)

    def flush(self) -> None:
        self._output.flush()
        if self._output.size() >= self._limit:
            self._output.close()
            self._rotate()
            self._output = self._begin()

    def close(self) -> None:
        self._output.close()

    def size(self) -> int:
        return self._output.size()

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
