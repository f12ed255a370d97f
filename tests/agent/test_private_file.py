"""Files that are this user's alone."""

import os
from pathlib import Path

import pytest
from tfscale.agent.private_file import open_private, replace_for_good


def test_a_file_that_others_could_read_is_private_once_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("of an earlier version")
    path.chmod(0o666)
    os.close(open_private(str(path), os.O_RDWR))
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text() == "of an earlier version"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(str(tmp_path / "link"), os.O_WRONLY)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "new").write_text("new")
    replace_for_good(str(tmp_path / "new"), str(tmp_path / "old"))
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_text() == "new"
