"""Tokens of agents on loopback, as the same user finds them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.local.agent_token import tokens_of
from tfscale.core.cluster.local.local_agents import LocalAgent, announced

AGENT = LocalAgent("run", "worker:0", "127.0.0.1:7070", os.getpid(), 0.0, "/", ("train",), token="secret")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep away from the agents that this user really runs: those of a session without a folder are in the second."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_the_token_of_an_agent_is_found_by_any_name_of_its_address() -> None:
    with announced(AGENT, os.environ), announced(replace(AGENT, address="127.0.0.1:7071", token="other"), os.environ):
        assert tokens_of(Address("127.0.0.1", 7070)) == tokens_of(Address("localhost", 7070)) == ("secret",)
        assert tokens_of(Address("127.0.0.1", 7071)) == ("other",)
        assert tokens_of(Address("127.0.0.2", 7070)) == tokens_of(Address("127.0.0.1", 707)) == ()
        assert "secret" not in repr(AGENT)


def test_agents_at_one_address_in_several_network_namespaces_have_a_token_each() -> None:
    with announced(AGENT, os.environ), announced(replace(AGENT, pid=1, token="other"), os.environ):
        assert set(tokens_of(Address("127.0.0.1", 7070))) == {"secret", "other"}


def test_a_token_of_an_agent_that_was_killed_is_not_sent(tmp_path: Path) -> None:
    """By then another user may listen at its port."""
    with announced(AGENT, os.environ):
        (file,) = (tmp_path / "tfscale" / "agents").iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_text()
    file.write_text(text)  # as it is left, with nobody who holds its lock
    assert tokens_of(Address("127.0.0.1", 7070)) == () and not file.exists()


def test_a_folder_in_which_others_may_write_is_not_believed(tmp_path: Path) -> None:
    with announced(AGENT, os.environ):
        (tmp_path / "tfscale").chmod(0o777)
        assert tokens_of(Address("127.0.0.1", 7070)) == ()
        (tmp_path / "tfscale").chmod(0o700)
