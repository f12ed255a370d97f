"""The ring of this process, of which there is one; modules of this folder that several tests share are on the path."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tfscale.trainer.probe.rows.row_layout import WIDTH

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def process_ring() -> Any:
    from tfscale.trainer.probe.rows.ring import ring

    found = ring()
    if found is None and shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
        pytest.skip("no C compiler here: rows go to a staging area")
    assert found is not None
    return found


@pytest.fixture
def ring(process_ring: Any) -> Iterator[Any]:
    """Yield the ring, empty before and after the test."""
    process_ring.clear()
    yield process_ring
    process_ring.clear()


@pytest.fixture(scope="session")
def write(process_ring: Any) -> Callable[[np.ndarray], None]:
    """Write rows into the ring, as graphs do."""
    import tensorflow as tf

    def writer(kind: int) -> Any:
        @tf.function(input_signature=[tf.TensorSpec((None, WIDTH), tf.float64)])
        def of_kind(rows: Any) -> None:
            for row in rows:
                process_ring.write(kind, [row[place] for place in range(1, WIDTH)])

        return of_kind

    writers: dict[int, Any] = {}

    def written(rows: np.ndarray) -> None:
        for row in rows:
            kind = int(row[0])
            writers.setdefault(kind, writer(kind))(row[None])

    return written


@pytest.fixture
def end_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse new threads of the probe, as Python 3.12 and newer do while they end."""
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith("tfscale-"):
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
