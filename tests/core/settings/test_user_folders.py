"""Folders of a user, also of one whom this host does not know: containers run programs so."""

import os
from pathlib import Path

import pytest
from tfscale.core.errors import UsageError
from tfscale.core.settings.user_folders import config_folder, has_state_folder, user_state_folder


@pytest.fixture
def _unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_unknown_user")
def test_a_user_without_a_home_has_no_configuration_and_is_told_what_to_set() -> None:
    assert not config_folder({}).exists()
    with pytest.raises(UsageError, match="no home folder, in which to keep state: set HOME or XDG_STATE_HOME"):
        user_state_folder({})
    assert not has_state_folder({})


def test_given_folders_stand_before_the_home(tmp_path: Path) -> None:
    given = {"XDG_CONFIG_HOME": "/etc/own", "XDG_STATE_HOME": str(tmp_path / "not" / "yet")}
    assert (config_folder(given), user_state_folder(given)) == (Path("/etc/own/tfscale"), tmp_path / "not/yet/tfscale")
    assert has_state_folder(given)
    (tmp_path / "not").write_text("a file is there")
    assert not has_state_folder(given)
