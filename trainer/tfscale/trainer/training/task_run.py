"""A run within one task: strategy, model and data of the plan, the loop, and the result of the task that leads."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.saving.checkpoints import Checkpoints
from tfscale.trainer.saving.event_files import EventFiles
from tfscale.trainer.saving.model_files import check_places, save
from tfscale.trainer.slowness import Pipeline, Slowness
from tfscale.trainer.traced_functions import TracedFunctions
from tfscale.trainer.training import loops
from tfscale.trainer.training.batches import Examples, batches, split
from tfscale.trainer.training.catalogue import Entry
from tfscale.trainer.training.held_out import evaluate, follow_checkpoints, plain_model
from tfscale.trainer.training.loops import Course, Trained
from tfscale.trainer.training.parts import Parts
from tfscale.trainer.training.plan import Plan, check_tasks
from tfscale.trainer.training.reductions import Reduction, reduction_of
from tfscale.trainer.training.result import Result, describe

MOST_SENT = (2 << 30) - (64 << 20)
"""Bytes of examples that a coordinator can send its workers: they are in one protobuf message with the pipeline."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of this process in the cluster."""

    role: str
    index: int
    tasks: Mapping[str, int]
    """Number of tasks by role."""

    @property
    def leads(self) -> bool:
        """True for the chief, or worker 0 where there is none: this task tells the result."""
        return self.role == "chief" or (self.role == "worker" and self.index == 0 and "chief" not in self.tasks)


def read_place(environment: Mapping[str, str] = os.environ) -> Place:
    """Return the place that TF_CONFIG gives this process."""
    document = json.loads(environment["TF_CONFIG"])
    task = document.get("task", {})
    tasks = {role: len(addresses) for role, addresses in document.get("cluster", {}).items()}
    return Place(task.get("type", "worker"), int(task.get("index", 0)), tasks or {"worker": 1})


def run(plan: Plan) -> None:
    """Do this task's part of a run. Raises UsageError for what cannot be done here."""
    place = read_place()
    check_tasks(plan, place.tasks)
    strategy = plan.strategy.load()
    if place.role in getattr(strategy, "SERVING", ()):
        strategy.serve()
    elif place.role == "evaluator":
        _evaluate(plan)
    else:
        _train(plan, place, strategy)


def _evaluate(plan: Plan) -> None:
    if plan.checkpoints is None:
        raise UsageError("--checkpoints: name a folder that the chief and this evaluator share")
    program = plan.program.load()
    _, held_out = _examples(plan, program)
    follow_checkpoints(tf.keras, program, plan.checkpoints, plan.steps, held_out)


def _train(plan: Plan, place: Place, module: ModuleType) -> None:
    """Train; the task that leads tells the result, and it alone saves the model."""
    if place.leads:
        check_places(plan.save)
    keras, program = tf.keras, plan.program.load()
    parts = Parts([(entry.load(), _value(entry, text)) for entry, text in plan.techniques])
    keras.utils.set_random_seed(plan.seed)
    with _refusals():
        parts.prepare(keras)
    strategy = _strategy(module, plan, parts)
    global_batch = _global_batch(plan, program, strategy.num_replicas_in_sync)
    with strategy.scope(), _refusals():
        parts.check(global_batch // strategy.num_replicas_in_sync)
    training, held_out = _examples(plan, program)
    slowness = Slowness(keras, plan.slow.get(f"{place.role}:{place.index}"))
    with strategy.scope():
        model = slowness.model(program.build_model(keras))
        rate = parts.learning_rate(program.LEARNING_RATE, strategy.num_replicas_in_sync, plan.steps)
        kind = getattr(keras.optimizers, getattr(program, "OPTIMIZER", "Adam"))
        with _refusals():
            optimizer = parts.optimizer(keras, slowness.optimizer(kind, rate))
        checkpoints = Checkpoints(plan.checkpoints, model, optimizer, place.leads)
    events = EventFiles(plan.tensorboard, place.leads)
    course = _course(plan, strategy, checkpoints, events)
    seed = None if _is_asynchronous(plan) else plan.seed + course.begin
    dataset = slowness.batches(batches(training, global_batch, seed))
    train = _fit if plan.loop == "fit" else _loop
    callbacks = slowness.callbacks()
    run = _Training(plan, course, strategy, program, parts, model, optimizer, dataset, callbacks, TracedFunctions())
    trained, reduction = train(run)
    # In every task, since reading a variable of some layers is a collective.
    weights = model.get_weights()
    if place.leads:
        trained_model = plain_model(keras, program, weights)
        for path in plan.save:
            save(trained_model, path)
        accuracy = evaluate(keras, program, trained_model, held_out)
        events.end(course.begin + course.steps, accuracy)
        _tell(_result(plan, place, strategy, course, global_batch, model, trained, accuracy, reduction), plan.json)


def _examples(plan: Plan, program: ModuleType) -> tuple[Examples, Examples]:
    """Return the examples to train on, and those that are held out. Raises UsageError for more than there can be."""
    if plan.examples is None:
        return split(*program.examples(plan.seed))
    try:
        features, labels = program.examples(plan.seed, plan.examples)
    except (MemoryError, ValueError) as error:
        raise UsageError(f"--examples {plan.examples}: {error}") from None
    if _is_asynchronous(plan) and features.nbytes + labels.nbytes > MOST_SENT:
        raise UsageError(f"--examples {plan.examples}: more than the 2 GiB that {plan.strategy.name} can send a worker")
    return split(features, labels)


def _is_asynchronous(plan: Plan) -> bool:
    """Return whether a coordinator schedules the steps."""
    return "SERVING" in plan.strategy.constants


def _course(plan: Plan, strategy: Any, checkpoints: Checkpoints, events: EventFiles) -> Course:
    """Return the steps that are to be made, and restore those that were made before."""
    begin = checkpoints.step
    if begin >= plan.steps:
        raise UsageError(f"--checkpoints {plan.checkpoints}: has made {begin} of --steps {plan.steps}, ask for more")
    if plan.checkpoints is not None and strategy.num_replicas_in_sync > 1:
        begins = strategy.run(lambda: tf.constant(float(begin)))
        if float(strategy.reduce("mean", begins, axis=None)) != begin:
            raise UsageError(f"--checkpoints {plan.checkpoints}: not the same for all workers, name a shared folder")
    try:
        checkpoints.restore()
    except ValueError as error:
        raise UsageError(f"--checkpoints: {error}") from None

    def after_epoch(step: int, loss: float) -> None:
        checkpoints.save(step)
        events.epoch(step, loss)

    return Course(plan.steps - begin, begin, after_epoch)


@dataclass(frozen=True, slots=True)
class _Training:
    """Everything that a loop needs."""

    plan: Plan
    course: Course
    strategy: Any
    program: ModuleType
    parts: Parts
    model: Any
    optimizer: Any
    dataset: Pipeline
    callbacks: list[Any]
    traced: TracedFunctions

    def reduction(self) -> Reduction | None:
        """Return the reduction that ran. Call it while the functions of the loop are there: TensorFlow drops others."""
        functions = self.traced.new()
        return None if functions is None else reduction_of(functions)


def _fit(run: _Training) -> tuple[Trained, Reduction | None]:
    keras, strategy, is_asynchronous = tf.keras, run.strategy, _is_asynchronous(run.plan)
    model, loss = run.model, run.program.loss(keras)
    with strategy.scope():
        if run.parts.gradients or run.parts.exchange:
            from tfscale.trainer.training import training_step

            model = training_step.fit_model(model, run.parts)
        model.compile(optimizer=run.optimizer, loss=loss, metrics=list(run.program.METRICS))
    if is_asynchronous:
        data = keras.utils.experimental.DatasetCreator(run.dataset)
    else:
        data = strategy.distribute_datasets_from_function(run.dataset)
    callbacks = [*run.callbacks, *_after_step(run)]
    return loops.fit(keras, model, data, run.course, callbacks, is_asynchronous), run.reduction()


def _after_step(run: _Training) -> list[Any]:
    """Return a callback that calls the techniques after each step, if there is one to call."""
    if not run.parts.has_after_step:
        return []
    made = itertools.count(run.course.begin + 1)
    call = lambda *_, **__: run.parts.after_step(run.strategy, run.model, next(made))  # noqa: E731
    return [tf.keras.callbacks.LambdaCallback(on_train_batch_end=call)]


def _loop(run: _Training) -> tuple[Trained, Reduction | None]:
    from tfscale.trainer.training import training_step

    strategy = run.strategy
    made = training_step.custom_step(strategy, run.model, run.optimizer, run.program.loss(tf.keras), run.parts)
    if _is_asynchronous(run.plan):
        return loops.coordinated(strategy, made, run.dataset, run.course), run.reduction()
    data = strategy.distribute_datasets_from_function(run.dataset)
    return loops.custom(strategy, made, data, run.course, run.parts, run.model), run.reduction()


def _value(entry: Entry, text: str) -> Any:
    try:
        return entry.load().parse(text)
    except ValueError as error:
        raise UsageError(f"--with {entry.name}={text}: {error}") from None


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn the ValueError of a technique that cannot be had here into one line."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"--with: {error}") from None


def _strategy(module: ModuleType, plan: Plan, parts: Parts) -> Any:
    try:
        return module.create(**plan.options, **parts.strategy_options())
    except ValueError as error:
        raise UsageError(f"{plan.strategy.name}: {error}") from None


def _global_batch(plan: Plan, program: ModuleType, replicas: int) -> int:
    """Return the examples of one step of all replicas."""
    if plan.global_batch is None:
        return (plan.batch or program.BATCH) * replicas
    if plan.global_batch % replicas:
        raise UsageError(f"--global-batch {plan.global_batch}: not divisible by {replicas} replicas")
    return plan.global_batch


def _result(
    plan: Plan,
    place: Place,
    strategy: Any,
    course: Course,
    global_batch: int,
    model: Any,
    trained: Trained,
    accuracy: Mapping[str, float],
    reduction: Reduction | None,
) -> Result:
    keras = "tf_keras" if os.environ.get("TF_USE_LEGACY_KERAS") == "1" else "keras"
    return Result(
        program=plan.program.name,
        strategy=plan.strategy.name,
        options=plan.options,
        techniques={entry.name: text for entry, text in plan.techniques},
        loop=plan.loop,
        keras=f"{keras} {version(keras)}",
        tensorflow=tf.__version__,
        tasks=place.tasks,
        replicas=strategy.num_replicas_in_sync,
        global_batch=global_batch,
        seed=plan.seed,
        weights=sum(math.prod(weight.shape) for weight in model.trainable_variables),
        begin=course.begin,
        steps=course.steps,
        seconds=trained.seconds,
        first_steps=trained.first_steps,
        first_steps_seconds=trained.first_steps_seconds,
        steps_per_second=trained.steps_per_second,
        loss=trained.losses,
        accuracy=accuracy,
        reduction=None if reduction is None else reduction.kind,
        reduction_ops={} if reduction is None else reduction.ops,
        saved=[str(path) for path in plan.save],
    )


def _tell(result: Result, path: Path | None) -> None:
    if path is not None:
        result.write(path)
    print(describe(result), flush=True)
