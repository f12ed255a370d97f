"""Plans, and what is refused before TensorFlow is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tfscale.core.errors import UsageError
from tfscale.trainer.launch import plan as plans
from tfscale.trainer.launch.catalogue import Entry, find
from tfscale.trainer.launch.plan import Plan, keras_of, make_plan


def plan(program: str = "digits", strategy: str = "multi-worker", **given: Any) -> Plan:
    return make_plan({"program": program, "strategy": strategy, **given}, {})


def test_the_plan_has_what_was_given_and_defaults_for_the_rest() -> None:
    made = plan("mlp", "mirrored", replicas=2, reduction="one-device", workers=None, steps=50, batch=16)
    assert (made.program.name, made.strategy.name, made.loop, made.steps, made.batch) == (
        "mlp",
        "mirrored",
        "fit",
        50,
        16,
    )
    assert made.options == {"replicas": 2, "reduction": "one-device"} and made.seed == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"program": "digit"}, "no program 'digit': use one of .*digits"),
        ({"strategy": "ps"}, "no strategy 'ps': use one of .*parameter-server"),
        ({"replicas": 2}, "--replicas: multi-worker does not take it, only --communication, --workers"),
        ({"strategy": "one-device", "workers": 2}, "--workers: one-device does not take it, only --device"),
        ({"communication": "mpi"}, "--communication mpi: use one of auto, ring, nccl"),
        ({"workers": 0}, "--workers 0: use from 1 to 64"),
        ({"strategy": "mirrored", "reduction": "ring"}, "--reduction ring: use one of auto, nccl"),
        ({"steps": 0}, "--steps 0: at least 1"),
        ({"batch": -1}, "--batch -1: at least 1"),
        ({"batch": 32, "global_batch": 64}, "give one of them"),
        ({"seed": -1}, "--seed -1: at least 0"),
        ({"seed": 2**31}, "--seed 2147483648: at most 2147483647"),
        ({"json": Path("/no/such/folder/x")}, "there is no folder /no/such/folder"),
        ({"json": Path("/")}, "--json /: is a folder"),
        ({"checkpoints": Path("/dev/null")}, "--checkpoints /dev/null: is no folder"),
        ({"tensorboard": Path("/dev/null")}, "--tensorboard /dev/null: is no folder"),
        ({"save": [Path("model.onnx")]}, "--save model.onnx: end the name in .keras, .h5 or .weights.h5"),
        ({"examples": 500}, "--examples 500: digits has a fixed set of examples; leave --examples out"),
        ({"program": "mlp", "examples": 9}, "--examples 9: at least 10, since a tenth is held out"),
        ({"with": "nothing=1"}, "no technique 'nothing'"),
        ({"steps": 10**20}, "--steps 1(0+): at most 2147483647"),
        ({"slow": ["worker:0=1ms", "worker:0=2ms"]}, "--slow worker:0 is given twice"),
        ({"slow": ["worker:1=1.2.3ms"]}, "is not a delay"),
        ({"slow": ["60ms"]}, "write TASK=DELAY"),
        ({"slow": ["worker:1=60"]}, "is not a delay"),
        ({"slow": ["worker:1=60ms"], "loop": "custom"}, "a delay is put into `fit`"),
        ({"strategy": "parameter-server", "slow": ["worker:1=60ms"]}, "a delay is put into `fit`"),
    ],
)
def test_what_can_never_run_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        plan(**given)
    assert "\n" not in str(raised.value) and raised.value.exit_status == 2


@pytest.mark.parametrize("text", ["1", "true", "True"])
def test_the_keras_of_tensorflow_is_known_by_each_text_that_it_takes(text: str) -> None:
    assert keras_of({"TF_USE_LEGACY_KERAS": text}) == "tf_keras"
    assert keras_of({"TF_USE_LEGACY_KERAS": "0"}) == keras_of({}) == "keras"


TECHNIQUES = {
    "schedule": Entry("technique", "schedule", "", {}, frozenset({"parse", "learning_rate"})),
    "warm-up": Entry("technique", "warm-up", "", {}, frozenset({"parse", "learning_rate"})),
    "mixed": Entry(
        "technique",
        "mixed",
        "",
        {
            "REFUSED": {
                "tf_keras": "needs Keras 3",
                "custom": "only fit",
                "tpu": "has its own",
                ("mirrored", "keras"): "needs tf_keras",
            }
        },
        frozenset({"parse", "prepare", "optimizer"}),
    ),
    "momentum": Entry("technique", "momentum", "", {}, frozenset({"parse", "optimizer"})),
}


@pytest.fixture
def _techniques(monkeypatch: pytest.MonkeyPatch) -> None:
    known = lambda kind, name: TECHNIQUES[name] if kind == "technique" else find(kind, name)  # noqa: E731
    monkeypatch.setattr(plans, "find", known)


@pytest.mark.usefixtures("_techniques")
def test_techniques_are_read_with_their_values_in_order() -> None:
    made = plan(**{"with": "mixed=float16,momentum,schedule=0.1:5"})
    assert [(entry.name, text) for entry, text in made.techniques] == [
        ("mixed", "float16"),
        ("momentum", ""),
        ("schedule", "0.1:5"),
    ]


@pytest.mark.usefixtures("_techniques")
@pytest.mark.parametrize(
    ("given", "environment", "said"),
    [
        ({"with": "schedule=1,warm-up=2"}, {}, r"--with schedule,warm-up: not together.*\(learning_rate\)"),
        ({"with": "mixed,mixed"}, {}, "mixed is given twice"),
        ({"with": "mixed"}, {"TF_USE_LEGACY_KERAS": "1"}, "--with mixed: not with tf_keras: needs Keras 3"),
        ({"with": "mixed", "loop": "custom"}, {}, "--with mixed: not with custom: only fit"),
        ({"with": "mixed", "strategy": "tpu"}, {}, "--with mixed: not with tpu: has its own"),
        ({"with": "mixed", "strategy": "mirrored"}, {}, "--with mixed: not with mirrored and keras: needs tf_keras"),
    ],
)
def test_techniques_that_do_not_go_together_are_refused(
    given: dict[str, Any], environment: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        make_plan({"program": "digits", "strategy": "multi-worker", **given}, environment)


def test_a_program_with_a_command_line_of_its_own_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Entry("program", "stages", "", {}, frozenset({"main"}))
    monkeypatch.setattr(plans, "find", lambda kind, name: program if kind == "program" else find(kind, name))
    with pytest.raises(UsageError, match="stages has a command line of its own: tfscale-train run stages --help"):
        plan("stages")


def test_a_program_says_under_which_strategies_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Entry("program", "stages", "", {"STRATEGIES": ("one-device",)}, frozenset())
    monkeypatch.setattr(plans, "find", lambda kind, name: program if kind == "program" else find(kind, name))
    with pytest.raises(UsageError, match="stages does not run under mirrored, only under one-device"):
        plan("stages", "mirrored")
