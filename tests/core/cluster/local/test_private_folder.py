"""Folders that are this user's alone: made so, and told from those that are not."""

import os
from pathlib import Path

from tfscale.core.cluster.local.private_folder import is_private, make_private


def test_a_folder_and_those_above_it_are_made_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        assert make_private(folder) is None
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent)] == [0o700, 0o700]


def test_a_folder_that_is_there_is_judged_and_not_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert make_private(tmp_path) == f"others may write there: chmod go-w {tmp_path}"
    tmp_path.chmod(0o755)
    assert make_private(tmp_path) is None and tmp_path.stat().st_mode & 0o777 == 0o755


def test_neither_a_link_nor_a_file_nor_nothing_is_private(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    assert make_private(tmp_path / "link") == "is a link"
    assert not any(is_private(tmp_path / name) for name in ("link", "file", "nothing"))
