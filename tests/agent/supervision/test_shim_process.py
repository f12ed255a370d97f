"""Commands as a state file keeps them, and as they are compared with the command of the next agent."""

from __future__ import annotations

from dataclasses import replace

from tfscale.agent.supervision.shim_process import TaskSpec, other_command, shown_command


def test_a_command_is_compared_with_its_folder(spec: TaskSpec) -> None:
    kept = shown_command(spec.command)
    assert other_command(spec, kept, spec.folder) is None
    assert other_command(spec, kept, "") is None  # of a version that kept no folder
    assert (other_command(spec, kept, "/elsewhere") or "").endswith(" in /elsewhere")
    assert other_command(spec, ["train", "again"], spec.folder) == f"train again in {spec.folder}"


def test_a_very_long_command_is_compared_as_far_as_it_is_kept(spec: TaskSpec) -> None:
    long = replace(spec, command=("train", "x" * 5000, "--size", "3"))
    kept = shown_command(long.command)
    assert sum(map(len, kept)) < 4096
    assert other_command(replace(long, command=(*long.command[:-1], "4")), kept, spec.folder) is None
    assert other_command(replace(long, command=("train", "y" * 5000)), kept, spec.folder) is not None
