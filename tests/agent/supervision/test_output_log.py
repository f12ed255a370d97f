import os
import time
from pathlib import Path

import pytest
from tfscale.agent.supervision.output_log import OutputLog


def test_a_log_is_rotated_at_line_ends_and_keeps_as_many_as_told(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "log"), 100, 2)
    for number in range(40):
        log.write(f"line number {number}\n".encode())
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log", "log.1", "log.2"]
    text = "".join((tmp_path / name).read_text() for name in ("log.2", "log.1", "log"))
    assert text.endswith("line number 39\n")
    assert all(line.startswith("line number ") for line in text.splitlines())
    assert log.lost == 0


def test_a_log_that_keeps_nothing_begins_anew(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "log"), 50, 0)
    for number in range(10):
        log.write(f"line number {number}\n".encode())
    assert [path.name for path in tmp_path.iterdir() if path.name != "log"] == []


def test_a_line_of_its_own_is_apart_from_output_without_a_newline(tmp_path: Path) -> None:
    for _ in range(2):
        log = OutputLog(str(tmp_path / "log"), 1 << 20, 1)
        log.line("started")
        log.write(b"loss: 0.5")
    log.line("ended")
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line[-7:] for line in lines] == ["started", "ss: 0.5", "started", "ss: 0.5", "Z ended"]


def test_a_full_disk_is_counted_and_marked_when_there_is_room_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = OutputLog(str(path), 1 << 20, 1)
    log.write(b"before\n")
    _reopen(log, Path("/dev/full"))
    log.write(b"lost\n" * 10)
    assert log.lost == 50
    _reopen(log, path)
    log.write(b"kept\n")
    assert path.read_text().splitlines() == [
        "before",
        "",
        "--- tfscale: 50 bytes of output could not be written",
        "kept",
    ]


def _reopen(log: OutputLog, path: Path) -> None:
    """Have the log write to another file, as to a disk that is full, or has room again."""
    assert log._fd is not None
    opened = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(opened, log._fd)
    os.close(opened)


@pytest.mark.parametrize("piece", [b"\r%03d/999 loss: 0.5", b"x%07d"])
def test_output_without_line_ends_is_rotated_too(piece: bytes, tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "log"), 4096, 2)
    for number in range(60_000):
        log.write(piece % number)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 3 and max(sizes) < 4096 + 2 * (1 << 16)


def test_a_line_of_its_own_after_a_rotation_within_a_line_says_so(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "log"), 8, 1)
    log.write(b"loss: 0.5")
    log.write(b" 10 %\r")
    log.line("ended")
    assert (tmp_path / "log.1").read_bytes() == b"loss: 0.5 10 %\r"
    assert (tmp_path / "log").read_text().endswith("Z ended\n")


def test_a_billion_logs_to_keep_cost_no_more_than_there_are(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "log"), 100, 1_000_000_000)
    began = time.monotonic()
    for number in range(60):
        log.write(b"line number %d\n" % number)
    assert time.monotonic() - began < 30.0
    assert len(list(tmp_path.iterdir())) == 10


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "another users file")
    log = OutputLog(str(tmp_path / "log"), 100, 2)
    log.write(b"text\n")
    assert log.lost == 5 and not (tmp_path / "another users file").exists()


def test_a_log_is_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        OutputLog(str(tmp_path / "log"), 100, 2).write(b"text\n")
    finally:
        os.umask(before)
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
