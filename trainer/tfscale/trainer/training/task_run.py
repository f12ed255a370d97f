"""A run within one task: strategy, model and data of the plan, the loop, and the leading task's result."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import ModuleType
from typing import Any

import tensorflow as tf
from tfscale.core.cluster.task import DATA_SERVICE
from tfscale.core.comparison.program_files import named_code
from tfscale.core.errors import UsageError
from tfscale.trainer.input import data_service
from tfscale.trainer.input.batches import Examples, batches, sharing, split
from tfscale.trainer.input.input_pipeline import distributed
from tfscale.trainer.launch.module_checks import parsed
from tfscale.trainer.launch.place import Place, check_tasks, read_place
from tfscale.trainer.launch.plan import Plan, keras_of
from tfscale.trainer.launch.result import Result, describe
from tfscale.trainer.saving.event_files import EventFiles
from tfscale.trainer.saving.model_files import save
from tfscale.trainer.saving.output_places import check_outputs
from tfscale.trainer.saving.resumption import open_checkpoints, resume
from tfscale.trainer.slow.delay import DueDelay
from tfscale.trainer.slow.delays import Delays
from tfscale.trainer.training import loops
from tfscale.trainer.training.held_out import evaluate, follow_checkpoints, plain_model
from tfscale.trainer.training.loops import Course, Trained
from tfscale.trainer.training.parts import Parts
from tfscale.trainer.training.reductions import Reduction, reduction_of
from tfscale.trainer.training.traced_functions import TracedFunctions

MOST_SENT = (2 << 30) - (64 << 20)
"""Most bytes of examples that a coordinator can send its workers: examples and pipeline are one protobuf message."""


def run(plan: Plan) -> None:
    """Do this task's part of a run. Raises UsageError for a run that is impossible here."""
    place = read_place(os.environ)
    check_tasks(plan, place.tasks, os.environ.get(data_service.ADDRESS, ""))
    strategy = plan.strategy.load()
    if place.role in DATA_SERVICE:
        data_service.serve()
    elif place.role in getattr(strategy, "SERVING", ()):
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
    """Train. The leading task prints the result, and it alone saves the model."""
    if place.leads:
        check_outputs(plan)
    keras, program = tf.keras, plan.program.load()
    files = named_code([str(program.__file__)])
    parts = Parts([parsed(entry, text) for entry, text in plan.techniques])
    keras.utils.set_random_seed(plan.seed)
    with _refusals():
        parts.prepare(keras)
    strategy = _strategy(module, plan, parts)
    global_batch = _global_batch(plan, program, strategy.num_replicas_in_sync)
    with strategy.scope(), _refusals():
        parts.check(global_batch // strategy.num_replicas_in_sync)
    training, held_out = _examples(plan, program)
    workers = 1 if _is_asynchronous(plan) else sum(place.tasks.values())
    together = sharing(strategy.num_replicas_in_sync, workers, plan.input)
    _check_batch(plan, global_batch // strategy.num_replicas_in_sync, len(training[1]), together)
    delay = plan.slow.get(f"{place.role}:{place.index}")
    delays = Delays(keras, DueDelay(delay) if delay else None)
    with strategy.scope():
        model = delays.model(program.build_model(keras))
        rate = parts.learning_rate(plan.rate or program.LEARNING_RATE, strategy.num_replicas_in_sync, plan.steps)
        kind = getattr(keras.optimizers, getattr(program, "OPTIMIZER", "Adam"))
        with _refusals():
            optimizer = parts.optimizer(keras, delays.optimizer(kind, rate))
        checkpoints = open_checkpoints(plan, model, optimizer, place.leads)
    events = EventFiles(plan.tensorboard, place.leads)
    course = resume(plan, strategy, checkpoints, events)
    seed = None if _is_asynchronous(plan) else plan.seed + course.begin
    data = batches(training, global_batch, seed, plan.input)
    train = _fit if plan.loop == "fit" else _loop
    callbacks = delays.callbacks()
    if plan.checkpoints is not None and not _is_asynchronous(plan) and plan.strategy.name != "tpu":
        # TensorFlow's handler refuses servers; on a TPU it would synchronise the host with the cores in each step.
        checkpoints.save_on_sigterm(strategy.cluster_resolver if sum(place.tasks.values()) > 1 else None)
        course = replace(course, after_step=checkpoints.after_step)
    run = _Training(
        plan=plan,
        course=course,
        strategy=strategy,
        program=program,
        parts=parts,
        model=model,
        optimizer=optimizer,
        dataset=lambda context: delays.input(data(context)),
        callbacks=callbacks,
        traced=TracedFunctions(),
    )
    trained, reduction = train(run)
    # In every task, since reading a variable of some layers is a collective.
    weights = model.get_weights()
    if place.leads:
        trained_model = plain_model(keras, program, weights)
        for path in plan.save:
            save(trained_model, path)
        accuracy = evaluate(keras, program, trained_model, held_out)
        events.end(course.begin + course.steps, accuracy)
        result = replace(_result(run, place, global_batch, trained, accuracy, reduction), files=files)
        print(describe(result), flush=True)
        if plan.json is not None:
            result.write(plan.json)


def _examples(plan: Plan, program: ModuleType) -> tuple[Examples, Examples]:
    """Return the examples to train on and the held-out ones. Raises UsageError for more than there can be."""
    if plan.examples is None:
        given = program.examples(plan.seed)
        if not isinstance(given, tuple) or len(given) != 2:
            raise UsageError(f"examples() gives a {type(given).__name__}: return a tuple of features and labels")
        return split(*given)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training:
    """Everything that a loop needs."""

    plan: Plan
    course: Course
    strategy: Any
    program: ModuleType
    parts: Parts
    model: Any
    optimizer: Any
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset]
    callbacks: list[Any]
    traced: TracedFunctions

    def reduction(self) -> Reduction | None:
        """Return the reduction that ran. Call it at once: TensorFlow drops the functions of the loop later."""
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
        data = distributed(strategy, run.dataset, run.plan.input)
    callbacks = [*run.callbacks, *_after_step(run)]
    return loops.fit(keras, model, data, run.course, callbacks, is_asynchronous), run.reduction()


def _after_step(run: _Training) -> list[Any]:
    """Return a callback that calls techniques and checkpoints after each step; none if there is nothing to call."""
    calls = [run.course.after_step] if run.course.after_step else []
    if run.parts.has_after_step:
        calls.insert(0, functools.partial(run.parts.after_step, run.strategy, run.model))
    made = itertools.count(run.course.begin + 1)

    def after_step(*_: Any, **__: Any) -> None:
        step = next(made)
        for call in calls:
            call(step)

    return [tf.keras.callbacks.LambdaCallback(on_train_batch_end=after_step)] if calls else []


def _loop(run: _Training) -> tuple[Trained, Reduction | None]:
    from tfscale.trainer.training import training_step

    strategy = run.strategy
    made = training_step.custom_step(strategy, run.model, run.optimizer, run.program.loss(tf.keras), run.parts)
    if _is_asynchronous(run.plan):
        return loops.coordinated(strategy, made, run.dataset, run.course), run.reduction()
    data = distributed(strategy, run.dataset, run.plan.input)
    return loops.custom(strategy, made, data, run.course, run.parts, run.model), run.reduction()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn the ValueError of a technique that is impossible here into one line."""
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


def _check_batch(plan: Plan, batch: int, examples: int, together: int) -> None:
    """Refuse a batch for which the sharing replicas would use an example twice in one step."""
    if batch > examples // together:
        name = "--batch" if plan.global_batch is None else "--global-batch"
        most = f": at most {examples // together}, since {together} replicas share them" if together > 1 else ""
        raise UsageError(
            f"{name}: {batch} examples a replica, and {plan.program.name} has {examples} to train on{most}"
        )


def _result(
    run: _Training,
    place: Place,
    global_batch: int,
    trained: Trained,
    accuracy: Mapping[str, float],
    reduction: Reduction | None,
) -> Result:
    keras, plan = keras_of(os.environ), run.plan
    return Result(
        program=plan.program.name,
        strategy=plan.strategy.name,
        options=plan.options,
        techniques={entry.name: text for entry, text in plan.techniques},
        input=plan.input.asked,
        loop=plan.loop,
        keras=f"{keras} {version(keras)}",
        tensorflow=tf.__version__,
        tasks=place.tasks,
        replicas=run.strategy.num_replicas_in_sync,
        global_batch=global_batch,
        seed=plan.seed,
        weights=sum(math.prod(weight.shape) for weight in run.model.trainable_variables),
        begin=run.course.begin,
        steps=run.course.steps,
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
