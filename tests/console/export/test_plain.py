"""Lines of text, one a change."""

from __future__ import annotations

from pathlib import Path

from command_words import run_command
from simulated_runs import record, simulated
from tfscale.console.sources.simulation.simulated import simulated_spec


def test_each_event_is_a_line_with_what_to_do_and_numbers_alone_are_no_news(tmp_path: Path) -> None:
    events = simulated(60, 4, "worker:1=1.6x@8s-30s", "worker:2=kill@45s")
    recording = record(tmp_path / "a.tfrec", events, simulated_spec(4))
    assert run_command("export", recording, "--plain", "--out", tmp_path / "a.txt") == 0
    begin, *lines = (tmp_path / "a.txt").read_text().splitlines()
    assert begin.endswith(" run simulated: worker:0, 1, 2 and 3")
    told = [line.split(maxsplit=2)[1:] for line in lines]
    serious, crash = (
        [text for word, text in told if word == severity and name in text]
        for severity, name in (("serious", "worker:1 has been slow"), ("critical", "their peer was gone"))
    )
    assert len(serious) == len(crash) == 1
    assert ". To do: check its GPU (nvidia-smi -q, dmesg), or restart it on another host." in serious[0]
    assert next(text for word, text in told if word == "good").startswith("worker:1 was 1.6x slower in compute")
    headlines = [text for word, text in told if word == "now"]
    assert 3 <= len(headlines) <= 8 and len(lines) <= 15
    assert headlines[-1].startswith("worker:2 was killed by SIGKILL")
