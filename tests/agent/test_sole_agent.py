"""The hold on a task's state, and who may have written it."""

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import SoleAgentError, holder, sole_agent
from tfscale.core.cluster.task import Role, Task

W0 = Task(Role.WORKER, 0)


@pytest.fixture
def settings(settings_of: Callable[..., AgentSettings], tmp_path: Path) -> AgentSettings:
    return settings_of(W0, state_dir=tmp_path / "new" / "state")


@pytest.fixture(params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(settings: AgentSettings) -> str:
    with pytest.raises(SoleAgentError) as refused, sole_agent(settings):
        pass
    return str(refused.value)


def test_a_second_agent_for_the_task_is_refused(settings: AgentSettings) -> None:
    with sole_agent(settings), pytest.raises(SoleAgentError, match="has an agent with pid"), sole_agent(settings):
        pass
    assert settings.files.agent_lock.exists()


def test_an_agent_begins_while_a_hand_over_looks_for_one(
    settings: AgentSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next agent was refused now and then: `has an agent with pid ... already`, of an agent that had left."""
    looks, flock = threading.Event(), fcntl.flock

    def lingering(lock: int, operation: int) -> None:
        flock(lock, operation)
        if operation & fcntl.LOCK_SH:
            looks.set()
            time.sleep(0.03)

    monkeypatch.setattr(fcntl, "flock", lingering)
    with sole_agent(settings):
        pass
    with ThreadPoolExecutor() as pool:
        looking = pool.submit(holder, settings)
        assert looks.wait(60)
        with sole_agent(settings):
            assert looking.result() is None


@pytest.mark.usefixtures("umask")
def test_the_state_is_for_its_user_alone_whatever_the_umask(settings: AgentSettings) -> None:
    with sole_agent(settings):
        folder = settings.files.folder
        assert [mode(each) for each in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3
        assert mode(settings.files.agent_lock) == 0o600


def test_a_folder_in_which_others_may_write_is_refused_with_what_helps(settings: AgentSettings) -> None:
    folder = settings.files.folder
    folder.mkdir(parents=True)
    folder.chmod(0o770)
    helps = f"others may write there: chmod go-w {folder}"
    assert refusal(settings) == f"{folder}: cannot keep state there ({helps}): give --state-dir"
    folder.chmod(0o750)
    with sole_agent(settings):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_refused(settings: AgentSettings) -> None:
    settings.files.folder.mkdir(parents=True)
    os.chown(settings.files.folder, 12345, -1)
    assert "belongs to user 12345" in refusal(settings)


def test_a_planted_link_is_refused(settings: AgentSettings, tmp_path: Path) -> None:
    folder, elsewhere = settings.files.folder, tmp_path / "elsewhere"
    folder.parent.mkdir(parents=True)
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    assert "is a link" in refusal(settings)
    folder.unlink()
    folder.mkdir(mode=0o700)
    settings.files.agent_lock.symlink_to(elsewhere / "file")
    assert "Too many levels of symbolic links" in refusal(settings)
    assert list(elsewhere.iterdir()) == []
