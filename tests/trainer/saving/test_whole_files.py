"""Files that are there whole or not at all, and places that are tried before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tfscale.trainer.saving.whole_files import (
    check_file,
    check_folder,
    check_writable,
    reason,
    write_text,
    written_whole,
)


def test_a_file_that_could_not_be_written_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_text(path, "before")
    with pytest.raises(OSError, match="full"), written_whole(path) as part:
        part.write_text("half of")
        raise OSError("full")
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]
    write_text(path, "after")
    assert path.read_text() == "after" and [*tmp_path.iterdir()] == [path]


def test_a_link_stays_one_and_a_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "out.json"
    link.symlink_to(target)
    write_text(link, "text")
    (tmp_path / "usual").touch()
    assert link.is_symlink() and target.read_text() == "text"
    assert target.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_device_is_written_to_as_it_is() -> None:
    check_writable(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left"):
        write_text(Path("/dev/full"), "text")
    write_text(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_a_folder_takes_the_place_of_one_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "served"
    for text in ("old", "new"):
        with written_whole(path) as part:
            part.mkdir()
            (part / text).touch()
    assert [each.name for each in path.iterdir()] == ["new"] and [*tmp_path.iterdir()] == [path]


def test_places_are_refused_with_the_reason(tmp_path: Path) -> None:
    for path, said in {"/none/x": "there is no folder /none", str(tmp_path): "is a folder, name a file in it"}.items():
        with pytest.raises(ValueError, match=f"^{said}$"):
            check_file(Path(path))
    with pytest.raises(ValueError, match=r"^File name too long$"):
        check_file(tmp_path / ("x" * 300))
    for path, said in {"/dev/null/x/y": "/dev/null is no folder", "/proc/x": "no file can be made in /proc: "}.items():
        with pytest.raises(ValueError, match=f"^{said}"):
            check_folder(Path(path))
    check_folder(tmp_path / "not" / "yet")
    assert not any(tmp_path.iterdir())


def test_the_reason_is_what_the_system_says() -> None:
    class OpError(Exception):
        message = "{{function_node __wrapped__SaveV2_dtypes_34}} /x/part-0; No space left on device [Op:SaveV2] name: "

    of_h5py = RuntimeError("Can't decrement id ref count (unable to extend, errno = 28, error message = 'No space')")
    for error in (OpError(), of_h5py, OSError(28, "Can't write (file write failed: time = Thu\n")):
        assert reason(error) == "No space left on device" == os.strerror(28)
    assert reason(OSError("something\nelse")) == "something"
