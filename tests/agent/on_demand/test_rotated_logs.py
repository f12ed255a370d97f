from pathlib import Path

import pytest
from tfscale.agent.on_demand.rotated_logs import newer_log, open_log
from tfscale.agent.supervision.output_log import OutputLog


@pytest.mark.parametrize(("keep", "is_whole"), [(9, True), (1, False)])
def test_a_reader_goes_through_all_files_that_are_kept(keep: int, is_whole: bool, tmp_path: Path) -> None:
    log = tmp_path / "task.log"
    writer = OutputLog(str(log), 100, keep)
    writer.write(b"0\n")
    file, lines, has_gap = open_log(log), b"", False
    for number in range(1, 200):
        writer.write(b"%d\n" % number)
    while file is not None:
        lines += file.read()
        newer = newer_log(log, file)
        file.close()
        file = newer and newer.file
        has_gap |= newer is not None and newer.is_gap
    assert has_gap is not is_whole and lines.endswith(b"\n199\n")
    assert (lines.split() == [b"%d" % number for number in range(200)]) is is_whole
