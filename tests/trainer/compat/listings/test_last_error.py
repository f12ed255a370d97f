"""The line after the error that ends a script."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from tfscale.trainer.compat.listings.erratum import Erratum
from tfscale.trainer.compat.listings.last_error import advice, advise, show


def raised(lines: str) -> BaseException:
    with pytest.raises(BaseException) as caught:
        exec(lines, {})
    return caught.value


@pytest.mark.parametrize(
    ("lines", "statement"),
    [("json.dumps({})", "import json"), ("np.zeros(3)", "import numpy as np"), ("pytest.fail", "import pytest")],
)
def test_a_module_that_was_never_imported_gets_its_import(lines: str, statement: str) -> None:
    said = advice(raised(lines))
    assert said is not None and said.endswith(f"write '{statement}' at the top")


@pytest.mark.parametrize("lines", ["no_such_thing", "{}['json']", "'text'.json", "int('x')"])
def test_nothing_is_said_of_other_errors(lines: str) -> None:
    assert advice(raised(lines)) is None


def test_an_argument_that_is_gone_gets_its_new_name() -> None:
    assert "learning_rate=" in str(advice(ValueError("Argument(s) not recognized: {'lr': 0.1}")))


def test_names_of_tensorflow_1_get_what_is_written_today() -> None:
    module = ModuleType("tensorflow")
    assert "tf.distribute.MirroredStrategy" in str(advice(AttributeError(name="contrib", obj=module)))
    assert "leave the line out" in str(advice(AttributeError(name="enable_eager_execution", obj=module)))
    keras = ModuleType("keras._tf_keras.keras.utils")
    assert "scope()" in str(advice(AttributeError(name="multi_gpu_model", obj=keras)))
    assert advice(AttributeError(name="contrib", obj=ModuleType("mine"))) is None


def test_an_erratum_is_one_line_and_other_errors_keep_their_trace(capsys: pytest.CaptureFixture[str]) -> None:
    show(Erratum, Erratum("write this"), None)
    assert capsys.readouterr().err == "tfscale: cannot run: write this\n"
    error = raised("json.dumps({})")
    show(type(error), error, error.__traceback__)
    *trace, last = capsys.readouterr().err.splitlines()
    assert "NameError: name 'json' is not defined" in "\n".join(trace) and last.startswith("tfscale: cannot run: ")


def test_the_first_advice_stays() -> None:
    error = RuntimeError("no answer")
    advise(error, "first")
    advise(error, "second")
    assert advice(error) == "first"
    assert sys.excepthook is not show
