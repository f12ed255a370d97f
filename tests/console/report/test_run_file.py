"""Files that hold a run, and files that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfscale.console.engine.events import Event, LinkChanged, LinkState, SecondPassed
from tfscale.console.recording.recording_reader import RecordingError
from tfscale.console.report.run_file import open_run, with_seconds
from tfscale.core.cluster.task import Role, Task

RUNS = Path(__file__).parents[2] / "data" / "runs"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "its first line is not the header"),
        ('{"type": "frame"}\n', "its first line is not the header"),
        ("step,worker\n0,1\n", "line 1 is not a JSON object"),
        ('{"type": "header", "run": "x", "cluster": {}}\n', "line 1: "),
    ],
)
def test_no_recording_is_one_clear_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises(RecordingError) as error:
        open_run(path)
    assert says in str(error.value)
    assert str(error.value).count(str(path)) == 1
    assert error.value.exit_status == 2


def test_a_recording_that_was_cut_off_is_told_with_the_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = (RUNS / "slow-link.tfrec").read_bytes()
    (path := tmp_path / "cut.tfrec").write_bytes(whole[: len(whole) * 2 // 3])
    assert len(list(open_run(path).events)) > 1
    assert [record.message.startswith(f"{path}: damaged at byte") for record in caplog.records] == [True]


def test_a_second_passes_before_the_events_of_another_and_at_the_end() -> None:
    events: list[Event] = [LinkChanged(at, Task(Role.WORKER, 0), LinkState.UP) for at in (1.0, 1.5, 1.2, 2.5, 6.0)]
    told = [event.at if isinstance(event, SecondPassed) else None for event in with_seconds(events)]
    assert told == [None, None, None, 2.5, None, 6.0, None, 6.0]
    assert list(with_seconds([])) == []
