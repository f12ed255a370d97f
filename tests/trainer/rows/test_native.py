"""The C library, which may be absent or of another version."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_a_library_that_is_not_there_or_another_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tfscale.trainer.probe.rows import native

    monkeypatch.setattr(native, "LIBRARY", tmp_path / "library.so")
    assert native.library.__wrapped__() is None
    (tmp_path / "library.so").write_text("no library")
    assert native.library.__wrapped__() is None
    monkeypatch.setattr(native, "LIBRARY", Path("libm.so.6"))
    assert native.library.__wrapped__() is None
