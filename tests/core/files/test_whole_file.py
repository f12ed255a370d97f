"""A file is written whole or not at all."""

import os
import resource
import stat
from pathlib import Path

import pytest
from tfscale.core.files.whole_file import whole_file, write_output, write_whole


def test_a_file_is_replaced_and_a_private_one_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 120)
    write_whole(path, "first")
    before = os.umask(0o022)
    try:
        write_whole(path, "größer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        write_whole(path, b"own", is_private=True)
    finally:
        os.umask(before)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"own", 0o600)
    assert [*tmp_path.iterdir()] == [path]


def test_where_there_is_no_room_the_file_of_before_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(path, "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


def test_a_folder_in_the_place_of_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "file", "text")
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def test_a_device_or_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"), whole_file(pipe):
        pass
    assert pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


def test_an_output_into_a_pipe_or_through_a_link_goes_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_output(tmp_path / "file", "before")
    write_output(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "after"
    write_output(Path("/dev/null"), "nothing")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
