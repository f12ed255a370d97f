"""Other rewriters of graphs, given a step of training that was traced: each line is a case, and what came of it.

rewriters.py FOLDER
"""

import hashlib
import os
import sys
from pathlib import Path

os.environ["TF_NUM_INTRAOP_THREADS"] = "1"

import numpy as np
import tensorflow as tf

folder = Path(sys.argv[1])
strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
import keras  # noqa: E402

BATCH = tf.reshape(tf.range(32, dtype=tf.float32), (4, 8)) / 32


class Trained(tf.Module):
    """Module with a step of training, by an optimizer of Keras and by hand."""

    def __init__(self):
        with strategy.scope():
            self.weights = tf.Variable(tf.ones((8, 1)) / 8)
            self.optimizer = keras.optimizers.SGD(0.01)
            self.optimizer.build([self.weights])

    def loss(self, batch):
        return tf.reduce_mean((tf.tanh(batch @ self.weights) - 1.0) ** 2)

    def update(self, batch):
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, [self.weights]), [self.weights], strict=True))
        return loss

    @tf.function(input_signature=[tf.TensorSpec((None, 8))])
    def train(self, batch):
        return strategy.run(self.update, args=(batch,))

    @tf.function(input_signature=[tf.TensorSpec((None, 8))])
    def predict(self, batch):
        return strategy.run(lambda images: tf.tanh(images @ self.weights), args=(batch,))

    @tf.function(input_signature=[tf.TensorSpec((None, 8))])
    def gradients(self, batch):
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        return tape.gradient(loss, self.weights)


def case(call):
    """Print what a case returns, and the weights after it, or its error."""
    model = Trained()
    try:
        came = [*tf.nest.flatten(call(model)), model.weights]
        digest = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in came)).hexdigest()[:16]
        print("case", call.__name__, digest, flush=True)
    except Exception as error:
        # The names of nodes in its message are other ones.
        print("case", call.__name__, type(error).__name__, flush=True)


@case
def retraced(model):
    step = tf.function(model.update, reduce_retracing=True)
    return [strategy.run(step, args=(BATCH[:size],)) for size in (4, 3, 2)]


@case
def compiled(model):
    return tf.function(model.update, jit_compile=True)(BATCH)


@case
def compiled_around(model):
    return [tf.function(lambda: model.gradients(BATCH), jit_compile=True)()]


@case
def traced_then_compiled(model):
    return [model.train(BATCH), tf.function(lambda: model.train(BATCH), jit_compile=True)()]


@case
def saved_module(model):
    before = model.train(BATCH)
    tf.saved_model.save(
        model, folder / "module", options=tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    )
    again = tf.saved_model.load(folder / "module")
    return [before, again.train(BATCH), again.predict(BATCH), again.gradients(BATCH)]


@case
def lite(model):
    model.train(BATCH)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([model.predict.get_concrete_function()], model)
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(taken["index"], BATCH.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(taken["index"], BATCH)
    interpreter.invoke()
    return [interpreter.get_tensor(given["index"])]


@case
def lite_of_training(model):
    model.train(BATCH)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([model.train.get_concrete_function()], model)
    converter.experimental_enable_resource_variables = True
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    return [len(converter.convert()) > 0]


@case
def quantized(model):
    model.train(BATCH)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([model.predict.get_concrete_function()], model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return [len(converter.convert()) > 0]


@case
def imported_graph(model):
    graph_def = model.train.get_concrete_function().graph.as_graph_def()
    own = [node.op for node in graph_def.node if node.op.startswith("Tfscale")]
    own += [node.op for each in graph_def.library.function for node in each.node_def if node.op.startswith("Tfscale")]
    (folder / "train.pb").write_bytes(graph_def.SerializeToString())
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    return [len(own)]


@case
def frozen(model):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    found = convert_variables_to_constants_v2(model.predict.get_concrete_function())
    own = [node.op for node in found.graph.as_graph_def().node if node.op.startswith("Tfscale")]
    return [found(BATCH), len(own)]


@case
def vectorized(model):
    return [tf.vectorized_map(lambda row: model.gradients(row[None]), BATCH)]


@case
def vectorized_training(model):
    step = tf.function(lambda rows: tf.vectorized_map(lambda row: strategy.run(model.loss, args=(row[None],)), rows))
    return [step(BATCH)]


@case
def vectorized_update(model):
    return [tf.vectorized_map(lambda row: model.train(row[None]), BATCH)]


@case
def mapped(model):
    return [tf.function(lambda: tf.map_fn(lambda row: model.train(row[None]), BATCH))()]


@case
def jacobian(model):
    @tf.function
    def found():
        with tf.GradientTape() as tape:
            values = strategy.run(lambda: tf.tanh(BATCH @ model.weights))
        return tape.jacobian(values, model.weights)

    return [found()]


@case
def second_gradient(model):
    @tf.function
    def found():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = strategy.run(model.loss, args=(BATCH,))
            first = inner.gradient(loss, model.weights)
        return outer.gradient(first, model.weights)

    return [found()]


@case
def looped(model):
    @tf.function
    def found():
        with tf.GradientTape() as tape:
            total = tf.constant(0.0)
            for _ in tf.range(3):
                total += strategy.run(model.loss, args=(BATCH,))
        return tape.gradient(total, model.weights)

    return [found()]


@case
def trained_in_a_loop(model):
    @tf.function
    def found(batches):
        total = tf.constant(0.0)
        for batch in batches:
            total += strategy.run(model.update, args=(batch[None],))
        return total

    return [found(BATCH)]


@case
def gradient_of_a_loop_with_batches(model):
    batches = tf.data.Dataset.from_tensors(BATCH).repeat(3)

    @tf.function
    def found(iterator):
        with tf.GradientTape() as tape:
            total = tf.constant(0.0)
            for _ in tf.range(3):
                total += model.loss(next(iterator))
        return tape.gradient(total, model.weights)

    return [found(iter(batches))]


@case
def under_a_condition(model):
    step = tf.function(lambda due: tf.cond(due, lambda: model.train(BATCH), lambda: tf.constant(0.0)))
    return [step(tf.constant(True)), step(tf.constant(False))]


@case
def recomputed(model):
    loss = tf.recompute_grad(lambda batch: strategy.run(model.loss, args=(batch,)))

    @tf.function
    def found():
        with tf.GradientTape() as tape:
            value = loss(BATCH)
        return tape.gradient(value, model.weights)

    return [found()]


@case
def custom_gradient(model):
    @tf.custom_gradient
    def doubled(value):
        with tf.GradientTape() as tape:
            tape.watch(value)
            result = value**2
        inside = tape.gradient(result, value)
        return result, lambda upstream: 2.0 * upstream * inside

    @tf.function
    def found():
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(doubled(BATCH @ model.weights))
        return tape.gradient(value, model.weights)

    return [found()]


@case
def forward_mode(model):
    @tf.function
    def found():
        with tf.autodiff.ForwardAccumulator(model.weights, tf.ones_like(model.weights)) as accumulator:
            loss = strategy.run(model.loss, args=(BATCH,))
        return accumulator.jvp(loss)

    with tf.autodiff.ForwardAccumulator(model.weights, tf.ones_like(model.weights)) as accumulator:
        gradient = model.gradients(BATCH)
    return [found(), accumulator.jvp(gradient)]


@case
def exported_keras(_):
    with strategy.scope():
        network = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, kernel_initializer="ones")])
        network.compile("sgd", "mse")
    network.fit(BATCH, tf.ones((4, 1)), verbose=0)
    network.export(str(folder / "exported"), verbose=False)
    network.save(folder / "saved.keras")
    again, served = keras.models.load_model(folder / "saved.keras"), tf.saved_model.load(str(folder / "exported"))
    return [served.serve(BATCH), again(BATCH)]


@case
def clustered_data(model):
    step = model.train.get_concrete_function()
    dataset = tf.data.Dataset.from_tensors(BATCH).map(lambda batch: tf.reduce_sum(model.gradients(batch)))
    return [*dataset, *(step(batch) for batch in tf.data.Dataset.from_tensors(BATCH))]


@case
def wrapped_v1(model):
    wrapped = tf.compat.v1.wrap_function(lambda batch: model.predict(batch), [tf.TensorSpec((None, 8))])
    return [wrapped(BATCH), wrapped.prune(wrapped.inputs[0], wrapped.outputs[0])(BATCH)]


@case
def pruned(model):
    function = model.train.get_concrete_function()
    return [tf.function(model.train.python_function, autograph=False)(BATCH), function(BATCH)]
