"""Strategies of one process: Mirrored with two logical CPUs, OneDevice, CentralStorage, the default."""

from __future__ import annotations

import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, learn, main, model, program, told


def _two_cpus():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return ["CPU:0", "CPU:1"]


def _mirrored(**options):
    return tf.distribute.MirroredStrategy(_two_cpus(), **options)


def _fit(strategy, **fitting):
    with strategy.scope():
        network = compiled()
    return network.fit(batches(), verbose=0, **fitting).history["loss"]


def _loop(strategy):
    with strategy.scope():
        network, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        losses = strategy.run(lambda x, y: learn(network, optimizer, x, y), (x, y))
        return strategy.reduce("MEAN", losses, None)

    return [float(step(x, y)) for x, y in strategy.experimental_distribute_dataset(batches())]


@program()
def fit_mirrored():
    return told(_fit(_mirrored(), epochs=2), 2 * STEPS)


@program(quick=False)
def loop_mirrored():
    return told(_loop(_mirrored()))


@program(quick=False)
def loop_mirrored_by_hierarchical_copy():
    return told(_loop(_mirrored(cross_device_ops=tf.distribute.ReductionToOneDevice())))


@program(quick=False)
def loop_mirrored_on_one_cpu():
    return told(_loop(tf.distribute.MirroredStrategy(["CPU:0"])))


@program(quick=False)
def fit_on_one_device():
    return told(_fit(tf.distribute.OneDeviceStrategy("CPU:0"), epochs=2), 2 * STEPS)


@program(quick=False)
def loop_on_one_device():
    return told(_loop(tf.distribute.OneDeviceStrategy("CPU:0")))


@program()
def fit_with_central_storage():
    _two_cpus()
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
    return told(_fit(strategy))


@program(quick=False)
def loop_of_the_default_strategy():
    """`get_strategy()` where nobody has chosen one."""
    return told(_loop(tf.distribute.get_strategy()))


@program(quick=False)
def fit_of_one_worker_in_a_cluster_of_its_own():
    """MultiWorkerMirroredStrategy without TF_CONFIG is one worker."""
    return told(_fit(tf.distribute.MultiWorkerMirroredStrategy()))


@program(quick=False)
def strategy_set_for_the_process():
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    tf.distribute.experimental_set_strategy(strategy)
    return told(compiled().fit(batches(), verbose=0).history["loss"])


@program(quick=False)
def batches_of_each_replica():
    """Give each replica a value by `experimental_distribute_values_from_function`."""
    strategy = _mirrored()
    with strategy.scope():
        network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    x, y = arrays()

    @tf.function
    def step(pair):
        losses = strategy.run(lambda pair: learn(network, optimizer, *pair), (pair,))
        return strategy.reduce("MEAN", losses, None)

    def own(step):
        def rows(context):
            first = (2 * step + context.replica_id_in_sync_group) * BATCH // 2
            return tf.constant(x[first : first + BATCH // 2]), tf.constant(y[first : first + BATCH // 2])

        return strategy.experimental_distribute_values_from_function(rows)

    return told([float(step(own(number))) for number in range(STEPS)])


@program(quick=False)
def mirrored_with_dropout_and_metrics():
    strategy = _mirrored()
    with strategy.scope():
        tf.keras.utils.set_random_seed(1)
        layers = tf.keras.layers
        network = tf.keras.Sequential(
            [layers.Input((8,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(1)]
        )
        network.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    history = network.fit(batches(), validation_data=batches(64), epochs=2, verbose=0).history
    return told([*history["loss"], *history["val_mae"]], 2 * STEPS)


if __name__ == "__main__":
    main()
