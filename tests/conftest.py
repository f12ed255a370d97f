"""Fixtures of all tests: they, and the consoles that they start, stay away from what this user's own console keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _state_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the fixtures that several tests share a state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a state folder of its own: baselines of one would be compared with what another does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
