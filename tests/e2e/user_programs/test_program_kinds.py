"""The quick ones of the small programs that people write, each with one Keras; `scripts/programs` runs all with both.

CI takes one of six, which is what it has time for; the others are of the matrix.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from user_programs.program_kinds import Program, judge, programs

QUICK = [program for program in programs() if program.quick]


CASES = [
    pytest.param(
        program,
        program.keras[number % len(program.keras)],
        marks=pytest.mark.slow if number % 6 == 0 else pytest.mark.matrix,
    )
    for number, program in enumerate(QUICK)
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("program", "keras"), CASES, ids=str)
def test_a_program_is_what_it_is_without_us_and_told_as_it_is(program: Program, keras: str, tmp_path: Path) -> None:
    assert judge(program, keras, tmp_path) == []


def test_every_program_has_a_name_of_its_own() -> None:
    names = [program.name for program in programs()]
    assert len(set(names)) == len(names)
