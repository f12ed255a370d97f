"""The line about a TPU that does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_an_error_is_explained_once_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    from tfscale.trainer.compat.listings import last_error
    from tfscale.trainer.probe.hooks import tpu_hooks

    hooks: dict[str, Any] = {}
    tpu_hooks.install(SimpleNamespace(put=lambda _, new: hooks.update(new)))  # type: ignore[arg-type]

    def fail(*_: object) -> None:
        raise RuntimeError("no answer\nand a long trace")

    # The start of the system makes a resolver, so that one error passes through both hooks.
    with pytest.raises(RuntimeError, match="no answer") as caught:
        hooks["initialize_tpu_system_impl"](lambda: hooks["TPUClusterResolver.__init__"](fail, None, "local"))
    assert capsys.readouterr().err == ""
    last_error.show(RuntimeError, caught.value, None)
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tfscale: ")]
    assert len(told) == 1 and told[0].startswith("tfscale: cannot run: no TPU to train on (no answer): ")
