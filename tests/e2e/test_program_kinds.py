"""Half of the small programs that people write, each with one Keras; `scripts/programs` runs all with both."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_kinds import Program, judge, programs

QUICK = [program for program in programs() if program.quick]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("program", "keras"),
    [(program, program.keras[number % len(program.keras)]) for number, program in enumerate(QUICK)],
    ids=str,
)
def test_a_program_is_what_it_is_without_us_and_told_as_it_is(program: Program, keras: str, tmp_path: Path) -> None:
    assert judge(program, keras, tmp_path) == []


def test_every_program_has_a_name_of_its_own() -> None:
    names = [program.name for program in programs()]
    assert len(set(names)) == len(names)
