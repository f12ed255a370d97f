"""Every private name of TensorFlow and Keras on which the probe and the repairs depend.

A feature is one hook or one repair with the names that it needs. It is checked when it is about to be put in place: a
TensorFlow that lacks one of its names loses this feature alone, and the console shows why. No other module imports
`tensorflow.python`, `tensorflow.core`, `keras.src` or `tf_keras.src`, or uses an attribute with an underscore that is
not listed here (`tests/trainer/test_tf_internals.py`). `scripts/versions --look` asks other versions for the list.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfscale.core.cluster.strategy import STRATEGIES
from tfscale.trainer.feature import Feature, find

KERAS_2 = ("tf_keras.src", "keras.src", "keras")
"""Packages that hold Keras 2: tf_keras, Keras 2.13 to 2.15, and Keras 2.12. Those of Keras 3 have the same names."""


class _FeatureOfKeras2(Feature):
    """Feature of Keras 2 in one of its packages."""

    def __init__(self, package: str, consequence: str, names: str, *, lesser: bool) -> None:
        super().__init__(consequence, names, lesser=lesser)
        self.package = package


def _in_keras_2(consequence: str, names: str, *, lesser: bool = False) -> tuple[Feature, ...]:
    """Return a feature for each package of Keras 2, which replaces KERAS in the names."""
    return tuple(
        _FeatureOfKeras2(package, consequence, names.replace("KERAS", package), lesser=lesser) for package in KERAS_2
    )


# --- TensorFlow: the probe -------------------------------------------------------------------------------------------

GRAPHS = Feature(
    "steps in graphs not measured",
    """
    tensorflow.python.framework.func_graph:func_graph_from_py_func(name, python_func)
    tensorflow.python.framework.func_graph:FuncGraph.outer_graph
    tensorflow.python.framework.func_graph:FuncGraph.captures
    tensorflow.python.framework.ops:Operation._set_attr(self, attr_name, attr_value)
    tensorflow.python.framework.ops:control_dependencies(control_inputs)
    tensorflow.python.framework.ops:device(device_name_or_function)
    tensorflow.python.framework.ops:get_default_graph()
    tensorflow.python.framework.ops:Graph.experimental_acd_manager
    tensorflow.python.framework.auto_control_deps:AutomaticControlDependencies.run_independently(self, op)
    tensorflow.python.framework.auto_control_deps_utils:RESOURCE_READ_OPS
    tensorflow.python.framework.op_def_registry:get(name)
    tensorflow.python.ops.control_flow_v2_func_graphs:WhileBodyFuncGraph
    tensorflow.python.ops.control_flow_util:GraphOrParentsInXlaContext(graph)
    tensorflow.python.ops.gen_logging_ops:timestamp(name)
    tensorflow.python.ops.gen_logging_ops:_assert(condition, data)
    tensorflow.python.ops.gen_data_flow_ops:stage(values, capacity, memory_limit, container, shared_name)
    tensorflow.python.ops.gen_data_flow_ops:stage_size(dtypes, capacity, memory_limit, container, shared_name)
    tensorflow.python.ops.gen_data_flow_ops:stage_clear(dtypes, capacity, memory_limit, container, shared_name)
    tensorflow.python.eager.execute:execute(op_name, num_outputs, inputs, attrs, ctx)
    tensorflow.python.eager.context:context()
    tensorflow.python.eager.context:Context._context_handle
    tensorflow.python.eager.context:Context.add_function_def(self, fdef)
    tensorflow.python.distribute.values:DistributedValues
    tensorflow.python.distribute.values:PerReplica.values
    tensorflow.python.framework.ops:Graph.as_graph_def(self, from_version, add_shapes)
    tensorflow.python.saved_model.save:_build_meta_graph(obj, signatures, options, meta_graph_def)
    tensorflow.python.ops.parallel_for.pfor:RegisterPFor.__call__(self, converter)
    tensorflow.core.framework.attr_value_pb2:AttrValue
    tensorflow.core.framework.function_pb2:FunctionDef
    """,
)
"""Stamps in graphs. Without the hook on GraphDefs, models and files would contain an op that other programs lack."""

DTENSOR = Feature(
    "programs of DTensor fail under an agent",
    "tensorflow.dtensor.python.api:_dtensor_singleton",
)
"""DTensor's device, None until a program makes a mesh: it places every op of a graph, and knows none of ours."""

FLOPS = Feature(
    "floating-point operations of a step not counted",
    """
    tensorflow.python.framework.ops:get_stats_for_node_def(graph, node, statistic_type)
    tensorflow.python.framework.ops:Graph._get_function(self, name)
    tensorflow.python.util.deprecation:silence()
    """,
)

OTHER_PROCESSES = Feature(
    "programs that connect to other processes of TensorFlow fail under an agent",
    """
    tensorflow.python.eager.context:context()
    tensorflow.python.eager.context:Context.set_server_def(self, server_def)
    tensorflow.python.eager.context:Context.list_function_names(self)
    tensorflow.python.eager.context:Context.get_function_def(self, name)
    tensorflow.python.eager.context:Context.remove_function(self, name)
    tensorflow.python.eager.context:Context.add_function_def(self, fdef)
    """,
)

DATA_FUNCTIONS = Feature(
    "data sets that compute gradients fail in a tf.data service under an agent",
    """
    tensorflow.python.data.ops.structured_function:StructuredFunctionWrapper.__init__(self, func, transformation_name)
    """,
)

RUNS = Feature(
    "steps not measured",
    """
    tensorflow.python.distribute.distribute_lib:StrategyBase.__init__(self, extended)
    tensorflow.python.distribute.distribute_lib:StrategyBase.run(self, fn)
    tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended._communication_options
    """,
)

INPUT = Feature(
    "input not measured",
    """
    tensorflow.python.distribute.input_lib:DistributedIteratorBase.get_next(self)
    tensorflow.python.distribute.input_lib:DistributedIteratorBase.get_next_as_optional(self)
    tensorflow.python.data.ops.iterator_ops:OwnedIterator.get_next(self)
    tensorflow.python.data.ops.iterator_ops:OwnedIterator.get_next_as_optional(self)
    tensorflow.python.data.ops.iterator_ops:OwnedIterator._next_internal(self)
    """,
)

OPTIONALS = Feature(
    "examples of batches that come as optionals not counted",
    "tensorflow.python.data.ops.optional_ops:_OptionalImpl.get_value(self)",
)

INPUT_PYTHON = Feature(
    "of workers whose data come late from the start, none is named",
    "tensorflow.python.ops.script_ops:FuncRegistry.__call__(self, token, device, args)",
)
"""Calls from graphs into Python: `Dataset.from_generator`, `py_function`, `numpy_function`."""

_BATCH_REDUCE = "_batch_reduce_to(self, reduce_op, value_destination_pairs, options)"
_REDUCE = "_reduce_to(self, reduce_op, value, destinations, options)"
_CONTAINER = "tensorflow.python.distribute.distribute_lib:StrategyExtendedV2._container_strategy(self)"
REDUCTIONS = Feature(
    "steps of other strategies not split",
    f"""
    {_CONTAINER}
    tensorflow.python.distribute.distribute_lib:StrategyExtendedV2.{_BATCH_REDUCE}
    """,
)
REDUCTIONS_OF = {
    row.name: Feature(
        f"steps of {row.name} not split",
        f"""
        {_CONTAINER}
        tensorflow.python.distribute.{row.extended}.{_BATCH_REDUCE}
        tensorflow.python.distribute.{row.extended}.{_REDUCE}
        """,
    )
    for row in STRATEGIES
    if row.extended
}
"""Reductions of strategies with reductions of their own, by the strategy's name."""

GATHERS = Feature(
    "gathers not measured",
    f"""
    {_CONTAINER}
    tensorflow.python.distribute.distribute_lib:StrategyExtendedV2._gather_to(self, value, destinations)
    """,
)

GRADIENTS = Feature(
    "training not distinguished from evaluation",
    "tensorflow.python.eager.backprop:GradientTape.gradient(self, target, sources)",
)

GRAPH_GRADIENTS = Feature(
    "training in sessions of tf.compat.v1 not noticed",
    "tensorflow.python.ops.gradients_util:_GradientsHelper(ys, xs)",
)

XLA = Feature(
    "functions compiled by XLA not measured",
    """
    tensorflow.python.eager.polymorphic_function.polymorphic_function:Function.__call__(self)
    tensorflow.python.eager.polymorphic_function.polymorphic_function:Function._jit_compile
    """,
)

COMPILATION = Feature(
    "pauses for compilation not shown",
    "tensorflow.python.eager.polymorphic_function.tracing_compilation:_create_concrete_function(function_type)",
    lesser=True,
)

CHECKPOINTS = Feature(
    "checkpoints not shown",
    """
    tensorflow.python.checkpoint.checkpoint:TrackableSaver.save(self, file_prefix)
    tensorflow.python.checkpoint.checkpoint:TrackableSaver.restore(self, save_path)
    tensorflow.python.saved_model.save:save_and_return_nodes(obj, export_dir)
    """,
    lesser=True,
)

COORDINATOR = Feature(
    "workers of ParameterServerStrategy not measured",
    """
    tensorflow.python.distribute.coordinator.cluster_coordinator:Closure.execute_on(self, worker)
    tensorflow.python.distribute.coordinator.cluster_coordinator:ResourceClosure
    tensorflow.python.distribute.coordinator.cluster_coordinator:_CoordinatedClosureQueue.get(self, timeout, tag)
    tensorflow.python.distribute.coordinator.cluster_coordinator:_CoordinatedClosureQueue._queue
    tensorflow.python.distribute.coordinator.cluster_coordinator:Worker.worker_index
    tensorflow.python.distribute.coordinator.cluster_coordinator:Worker.device_name
    tensorflow.python.distribute.coordinator.cluster_coordinator:Worker.executor
    tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2Extended._num_gpus_per_worker
    tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2Extended._num_workers
    tensorflow.python.eager.context:executor_scope(e)
    """,
)

WAITS = Feature(
    "waiting for functions on workers not measured",
    """
    tensorflow.python.distribute.coordinator.cluster_coordinator:ClusterCoordinator.join(self)
    tensorflow.python.distribute.coordinator.values:RemoteValueImpl.fetch(self)
    """,
)

SERVERS = Feature(
    "parameter servers and their workers not shown",
    "tensorflow.python.training.server_lib:Server.__init__(self, server_or_cluster_def)",
)

TPU = Feature(
    "the absence of a TPU not explained",
    """
    tensorflow.python.distribute.cluster_resolver.tpu.tpu_cluster_resolver:TPUClusterResolver.__init__(self, tpu)
    tensorflow.python.tpu.tpu_strategy_util:initialize_tpu_system_impl(cluster_resolver)
    """,
    lesser=True,
)

DELAYS = Feature(
    "updates not delayed on purpose",
    "tensorflow.python.distribute.distribute_lib:get_update_replica_id()",
)

_SERVERS = "tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2Extended"
PLACEMENT = Feature(
    "variables not placed by size",
    f"""
    {_SERVERS}._create_variable_round_robin(self, next_creator)
    {_SERVERS}._variable_count
    {_SERVERS}._num_ps
    """,
)

# --- Keras: training -------------------------------------------------------------------------------------------------

EXCHANGED_GRADIENTS = Feature(
    "techniques that sum gradients in a way of their own do not run",
    "keras.src.backend.tensorflow.optimizer:TFOptimizer._all_reduce_sum_gradients(self, grads_and_vars)",
)

# --- Keras: the probe ------------------------------------------------------------------------------------------------

OPTIMIZER = Feature(
    "steps without a strategy not measured",
    """
    keras.src.optimizers.base_optimizer:BaseOptimizer.apply(self, grads, trainable_variables)
    keras.src.optimizers.base_optimizer:BaseOptimizer.iterations
    """,
)
OPTIMIZER_KERAS_2 = _in_keras_2(
    "steps without a strategy not measured",
    """
    KERAS.optimizers.optimizer:Optimizer.apply_gradients(self, grads_and_vars)
    KERAS.optimizers.optimizer:Optimizer.iterations
    """,
)
LEGACY_OPTIMIZER_KERAS_2 = _in_keras_2(
    "steps without a strategy not measured",
    """
    KERAS.optimizers.legacy.optimizer_v2:OptimizerV2.apply_gradients(self, grads_and_vars)
    KERAS.optimizers.legacy.optimizer_v2:OptimizerV2.iterations
    """,
)
CALLBACKS = Feature(
    "epoch and loss not shown",
    """
    keras.src.callbacks.callback_list:CallbackList.on_epoch_begin(self, epoch)
    keras.src.callbacks.callback_list:CallbackList.on_train_batch_end(self, batch, logs)
    keras.src.callbacks.callback_list:CallbackList.on_train_end(self)
    keras.src.callbacks.callback_list:CallbackList.model
    """,
    lesser=True,
)
CALLBACKS_KERAS_2 = _in_keras_2(
    "epoch and loss not shown",
    """
    KERAS.callbacks:CallbackList.on_epoch_begin(self, epoch)
    KERAS.callbacks:CallbackList.on_train_batch_end(self, batch, logs)
    KERAS.callbacks:CallbackList.on_train_end(self)
    KERAS.callbacks:CallbackList.model
    """,
    lesser=True,
)
HISTORY = Feature(
    "logs of epochs, such as val_loss, not shown",
    "keras.src.callbacks.history:History.on_epoch_end(self, epoch, logs)",
    lesser=True,
)
HISTORY_KERAS_2 = _in_keras_2(
    "logs of epochs, such as val_loss, not shown",
    "KERAS.callbacks:History.on_epoch_end(self, epoch, logs)",
    lesser=True,
)
_MODEL = "evaluate predict save save_weights load_weights export"
MODEL = Feature(
    "evaluations and saved models not shown",
    "\n".join(f"keras.src.models.model:Model.{name}(self)" for name in _MODEL.split()),
    lesser=True,
)
MODEL_KERAS_2 = _in_keras_2(
    "evaluations and saved models not shown",
    "\n".join(f"KERAS.engine.training:Model.{name}(self)" for name in _MODEL.split()),
    lesser=True,
)

_CORE = "keras.src.backend.tensorflow.core|keras.src.backend.tensorflow.ops.core"
_TRAINER = "keras.src.backend.tensorflow.trainer:TensorFlowTrainer|Trainer"
"""Places with other names since Keras 3.16."""

# --- Repairs ---------------------------------------------------------------------------------------------------------

DEVICE_NAMES = Feature(
    "names of physical devices not taken for devices",
    "tensorflow.python.framework.device_spec:DeviceSpecV2._string_to_components(spec)",
)
CHECKPOINT_CALLBACK = Feature(
    "names of checkpoints not completed",
    "keras.src.callbacks.model_checkpoint:ModelCheckpoint.__init__(self, filepath)",
)
CHECKPOINT_MODEL = Feature(
    "names of checkpoints not completed",
    """
    keras.src.models.model:Model.save_weights(self, filepath)
    keras.src.models.model:Model.load_weights(self, filepath)
    """,
)
SHARED_PLACES = Feature(
    "files that all workers write at one path not repaired",
    """
    tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended._in_multi_worker_mode(self)
    tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended.should_checkpoint
    tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended._task_type
    tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended._task_id
    """,
)
SAVED_MODELS = Feature(
    "models that all workers save at one path not repaired",
    """
    keras.src.saving.saving_api:save_model(model, filepath, overwrite)
    keras.src.saving.saving_api:save_weights(model, filepath, overwrite)
    keras.src.saving.saving_api:load_model(filepath)
    keras.src.saving.saving_api:load_weights(model, filepath)
    """,
)
EXPORTS = Feature(
    "models that all workers export to one path not repaired",
    "keras.src.models.model:Model.export(self, filepath)",
)
EXPORT_ARCHIVE = Feature(
    "models that all workers export to one path not repaired",
    "keras.src.export.saved_model_export_archive|keras.src.export.saved_model|keras.src.export.export_lib"
    ":SavedModelExportArchive|BaseSavedModelExportArchive|ExportArchive.write_out(self, filepath)",
)
MADE_FOLDERS = Feature(
    "folders that all workers make at once not repaired",
    """
    keras.src.utils.file_utils:makedirs(path)
    keras.src.utils.file_utils:isdir(path)
    """,
)
BACKUP = Feature(
    "backups that all workers write at one path not repaired",
    """
    keras.src.callbacks.backup_and_restore:BackupAndRestore.on_train_begin(self, logs)
    keras.src.callbacks.backup_and_restore:BackupAndRestore._save_model(self)
    keras.src.callbacks.backup_and_restore:BackupAndRestore.on_train_end(self, logs)
    keras.src.callbacks.backup_and_restore:BackupAndRestore.backup_dir
    """,
)
CSV_FILES = Feature(
    "CSV files that all workers write at one path not repaired",
    """
    keras.src.callbacks.csv_logger:CSVLogger.on_train_begin(self, logs)
    keras.src.callbacks.csv_logger:CSVLogger.on_epoch_end(self, epoch, logs)
    keras.src.callbacks.csv_logger:CSVLogger.filename
    """,
)
EVENTS = Feature(
    "events that all workers write to one folder not repaired",
    """
    keras.src.callbacks.tensorboard:TensorBoard.set_model(self, model)
    keras.src.callbacks.tensorboard:TensorBoard.on_epoch_end(self, epoch, logs)
    keras.src.callbacks.tensorboard:TensorBoard.on_test_end(self, logs)
    keras.src.callbacks.tensorboard:TensorBoard.on_train_end(self, logs)
    keras.src.callbacks.tensorboard:TensorBoard._close_writers(self)
    keras.src.callbacks.tensorboard:TensorBoard._writers
    keras.src.callbacks.tensorboard:TensorBoard._log_write_dir
    keras.src.callbacks.tensorboard:TensorBoard._train_dir
    keras.src.callbacks.tensorboard:TensorBoard._val_dir
    keras.src.callbacks.tensorboard:TensorBoard._prev_summary_state
    keras.src.callbacks.tensorboard:TensorBoard._pop_writer(self)
    keras.src.callbacks.tensorboard:TensorBoard._push_writer(self, writer, step)
    keras.src.callbacks.tensorboard:TensorBoard._train_writer
    keras.src.callbacks.tensorboard:TensorBoard._global_train_batch
    """,
)
RECONNECTION = Feature(
    "a chief that is started again may end while servers reconnect",
    """
    tensorflow.python.distribute.parameter_server_strategy_v2:ParameterServerStrategyV2._connect_to_cluster(self)
    """,
)
SYMBOLIC_BUILD = Feature(
    "fit of Keras under MultiWorkerMirroredStrategy not repaired",
    f"""
    {_TRAINER}._maybe_symbolic_build(self, iterator, data_batch)
    {_TRAINER}._symbolic_build(self, iterator, data_batch)
    {_TRAINER}._distribute_strategy
    keras.src.backend.tensorflow.trainer:TFEpochIterator._distributed_dataset
    keras.src.backend.tensorflow.trainer:TFEpochIterator.data_adapter
    keras.src.backend.tensorflow.trainer:tree.map_structure
    keras.src.trainers.data_adapters.generator_data_adapter:GeneratorDataAdapter.generator
    tensorflow.python.distribute.values:PerReplicaSpec._value_specs
    """,
    symptom="Attempt to convert a value (PerReplica",
)
REPLICA_METRICS = Feature(
    "metrics of Keras under MultiWorkerMirroredStrategy not repaired",
    """
    keras.src.backend.tensorflow.trainer:reduce_per_replica(values, strategy, reduction)
    keras.src.backend.tensorflow.trainer:_collective_all_reduce_multi_worker(strategy)
    keras.src.backend.tensorflow.trainer:tree.map_structure
    """,
    symptom="Invalid reduction dimension 0",
)
SHARDED_PREDICT = Feature(
    "predict of Keras under MultiWorkerMirroredStrategy not repaired",
    f"""
    {_TRAINER}.predict(self, x)
    keras.src.backend.tensorflow.trainer:_collective_all_reduce_multi_worker(strategy)
    """,
)
EXECUTIONS = Feature(
    "steps_per_execution of Keras under a strategy not repaired",
    f"""
    keras.src.backend.tensorflow.trainer:TFEpochIterator._enumerate_iterator(self)
    keras.src.backend.tensorflow.trainer:TFEpochIterator._steps_seen
    keras.src.backend.tensorflow.trainer:TFEpochIterator._num_batches
    {_TRAINER}._make_function(self, step_function)
    {_TRAINER}._autoconvert_optionals(self, step_func)
    {_TRAINER}._distribute_strategy
    keras.src.backend.tensorflow.trainer:reduce_per_replica(values, strategy, reduction)
    """,
)
KERAS_ON_SERVERS = Feature(
    "Keras under ParameterServerStrategy not repaired",
    f"""
    keras.src.backend.tensorflow.trainer:TFEpochIterator.__init__(self, distribute_strategy)
    keras.src.backend.tensorflow.trainer:TFEpochIterator._enumerate_iterator(self)
    keras.src.backend.tensorflow.trainer:TFEpochIterator.tf_sync(self)
    keras.src.backend.tensorflow.trainer:TFEpochIterator._distribute_strategy
    keras.src.backend.tensorflow.trainer:TFEpochIterator._distributed_dataset
    keras.src.backend.tensorflow.trainer:TFEpochIterator._current_iterator
    keras.src.backend.tensorflow.trainer:TFEpochIterator._num_batches
    keras.src.backend.tensorflow.trainer:TFEpochIterator.data_adapter
    {_TRAINER}.distribute_strategy
    {_TRAINER}._distribute_strategy
    {_TRAINER}._maybe_symbolic_build(self, iterator, data_batch)
    {_TRAINER}._symbolic_build(self, iterator, data_batch)
    {_TRAINER}._make_function(self, step_function)
    {_TRAINER}._autoconvert_optionals(self, step_func)
    {_TRAINER}._get_metrics_result_or_logs(self, logs)
    {_TRAINER}.fit(self, x)
    {_TRAINER}.evaluate(self, x)
    {_TRAINER}.predict(self, x)
    {_TRAINER}.predict_on_batch(self, x)
    keras.src.trainers.data_adapters.tf_dataset_adapter:TFDatasetAdapter.num_batches
    keras.src.trainers.data_adapters.tf_dataset_adapter:TFDatasetAdapter._dataset
    tensorflow.python.distribute.coordinator.cluster_coordinator:ClusterCoordinator._cluster
    tensorflow.python.distribute.coordinator.cluster_coordinator:Worker.create_resource(self, function, args)
    tensorflow.python.distribute.coordinator.values:RemoteValueImpl._status_available_event
    tensorflow.python.distribute.coordinator.values:RemoteValueImpl._values
    tensorflow.python.distribute.coordinator.values:RemoteValueImpl._type_spec
    tensorflow.python.distribute.coordinator.values:PerWorkerDatasetFromDatasetFunction.__init__(self, dataset_fn)
    tensorflow.python.distribute.coordinator.values:PerWorkerDatasetFromDatasetFunction._dataset_fn
    tensorflow.python.distribute.coordinator.values:PerWorkerDatasetFromDatasetFunction._coordinator
    tensorflow.python.distribute.coordinator.values:PerWorkerDistributedIterator
    tensorflow.python.distribute.coordinator.values:PerWorkerValues
    tensorflow.python.distribute.coordinator.values:serialize_dataset_to_graph(dataset)
    tensorflow.python.distribute.coordinator.values:deserialize_dataset_from_graph(graph_def, element_spec)
    tensorflow.python.data.ops.dataset_ops:DatasetV2._functions(self)
    tensorflow.python.data.ops.dataset_ops:DatasetV2._inputs(self)
    tensorflow.python.distribute.input_lib:DistributedDataset._original_dataset
    tensorflow.python.distribute.input_lib:DistributedDataset._built
    tensorflow.python.distribute.input_lib:get_iterator_spec_from_dataset(strategy, dataset)
    tensorflow.python.distribute.values:PerReplicaSpec._value_specs
    """,
    symptom="create_per_worker_dataset",
)
ATOMIC_VARIABLES = Feature(
    "assign_add of Keras under ParameterServerStrategy and CentralStorageStrategy not repaired",
    f"""
    {_CORE}:Variable.assign_add(self, value)
    {_CORE}:Variable.assign_sub(self, value)
    {_CORE}:Variable._value
    """,
)
CENTRAL_STATES = Feature(
    "BatchNormalization and Dropout of Keras under CentralStorageStrategy not repaired",
    f"""
    {_CORE}:Variable._map_aggregation(self, aggregation)
    {_CORE}:Variable._dtype
    """,
)
LOOKUPS = Feature(
    "embeddings of Keras under ParameterServerStrategy, which send whole tables to each worker, not repaired",
    f"""
    {_CORE}:Variable._maybe_autocast(self, value)
    {_CORE}:Variable._value
    """,
)
OPTIMIZER_BUILD = Feature(
    "optimizers of Keras in custom loops not repaired",
    """
    keras.src.backend.tensorflow.optimizer:TFOptimizer._distribution_strategy
    keras.src.optimizers.base_optimizer:BaseOptimizer.apply(self, grads, trainable_variables)
    keras.src.optimizers.base_optimizer:BaseOptimizer.build(self, variables)
    keras.src.optimizers.base_optimizer:BaseOptimizer.built
    """,
    symptom="You must feed a value for placeholder tensor",
)
OPTIMIZER_UPDATES = Feature(
    "use_ema, gradient_accumulation_steps and clipping of Keras under strategies not repaired",
    """
    keras.src.backend.tensorflow.optimizer:TFOptimizer._distribution_strategy
    keras.src.backend.tensorflow.optimizer:TFOptimizer._all_reduce_sum_gradients(self, grads_and_vars)
    keras.src.backend.tensorflow.optimizer:TFOptimizer._distributed_tf_update_step(self, distribution, grads_and_vars)
    keras.src.backend.tensorflow.optimizer:TFOptimizer._apply_weight_decay(self, variables)
    keras.src.optimizers.base_optimizer:BaseOptimizer._backend_apply_gradients(self, grads, trainable_variables)
    keras.src.optimizers.base_optimizer:BaseOptimizer._clip_gradients(self, grads)
    keras.src.optimizers.base_optimizer:BaseOptimizer._use_weight_decay(self, variable)
    keras.src.optimizers.base_optimizer:BaseOptimizer._get_variable_index(self, variable)
    keras.src.optimizers.base_optimizer:BaseOptimizer._accumulated_gradients
    keras.src.optimizers.base_optimizer:BaseOptimizer._model_variables_moving_average
    keras.src.optimizers.base_optimizer:BaseOptimizer._trainable_variables
    keras.src.optimizers.base_optimizer:BaseOptimizer._iterations
    """,
    symptom="`merge_call` called while defining a new graph",
)
LOSS_SCALE = Feature(
    "LossScaleOptimizer of Keras not repaired",
    """
    keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer.apply(self, grads, trainable_variables)
    keras.src.optimizers.loss_scale_optimizer:LossScaleOptimizer.check_finite(self, grads)
    keras.src.backend.tensorflow.optimizer:TFOptimizer._distribution_strategy
    """,
)
LOGS_KERAS_2 = _in_keras_2(
    "logs of Keras 2 under MultiWorkerMirroredStrategy not repaired",
    """
    KERAS.engine.training:reduce_per_replica(values, strategy, reduction)
    KERAS.engine.training:_collective_all_reduce_multi_worker(strategy)
    KERAS.engine.training:Model.get_metrics_result(self)
    """,
)
DATASETS_KERAS_2 = _in_keras_2(
    "distributed data sets without steps_per_epoch not repaired",
    """
    KERAS.engine.data_adapter:DatasetAdapter._validate_args(self, y, sample_weights, steps)
    KERAS.engine.data_adapter:DatasetAdapter.get_size(self)
    KERAS.engine.data_adapter:DatasetAdapter.should_recreate_iterator(self)
    KERAS.engine.data_adapter:DatasetAdapter._user_steps
    KERAS.engine.data_adapter:DatasetAdapter._dataset
    KERAS.engine.data_adapter:_is_distributed_dataset(ds)
    tensorflow.python.distribute.input_lib:DistributedDataset._built
    """,
)

# --- TensorFlow: trainings of tfscale-train ---------------------------------------------------------------------------

TRACED_FUNCTIONS = Feature(
    "reduction of a training not reported",
    """
    tensorflow.python.eager.context:context()
    tensorflow.python.eager.context:Context.list_function_names(self)
    tensorflow.python.eager.context:Context.get_function_def(self, name)
    """,
)

# --- What the probe and the repairs use of these modules --------------------------------------------------------------

ops = find("tensorflow.python.framework.ops")
deprecation = find("tensorflow.python.util.deprecation")
op_def_registry = find("tensorflow.python.framework.op_def_registry")
context = find("tensorflow.python.eager.context")
execute = find("tensorflow.python.eager.execute")
gen_data_flow_ops = find("tensorflow.python.ops.gen_data_flow_ops")
gen_logging_ops = find("tensorflow.python.ops.gen_logging_ops")
AttrValue = find("tensorflow.core.framework.attr_value_pb2:AttrValue")
FunctionDef = find("tensorflow.core.framework.function_pb2:FunctionDef")
RESOURCE_READ_OPS = find("tensorflow.python.framework.auto_control_deps_utils:RESOURCE_READ_OPS")
WhileBodyFuncGraph = find("tensorflow.python.ops.control_flow_v2_func_graphs:WhileBodyFuncGraph")
RegisterPFor = find("tensorflow.python.ops.parallel_for.pfor:RegisterPFor")
is_in_xla = find("tensorflow.python.ops.control_flow_util:GraphOrParentsInXlaContext")
dtensor = find("tensorflow.dtensor.python.api")
DistributedValues = find("tensorflow.python.distribute.values:DistributedValues")
input_lib = find("tensorflow.python.distribute.input_lib")
coordinator_values = find("tensorflow.python.distribute.coordinator.values")
ResourceClosure = find("tensorflow.python.distribute.coordinator.cluster_coordinator:ResourceClosure")
get_update_replica_id = find("tensorflow.python.distribute.distribute_lib:get_update_replica_id")

INDEPENDENT = "_independent_side_effects"
"""Attribute of ops that `AutomaticControlDependencies.run_independently` sets."""


def keras_trainer() -> Any:
    """Return the class of Keras 3 that trains with TensorFlow."""
    return find(_TRAINER)


def _all() -> Iterator[Feature]:
    for value in globals().values():
        if isinstance(value, Feature):
            yield value
        elif isinstance(value, tuple):
            yield from (each for each in value if isinstance(each, Feature))
    yield from REDUCTIONS_OF.values()


def inventory() -> Iterator[Feature]:
    """Return all features of the installed libraries, each with the names that it needs."""
    return filter(applies, _all())


def applies(feature: Feature) -> bool:
    """Decide whether a feature is for the installed Keras: modules of Keras 2 and 3 share names."""
    if isinstance(feature, _FeatureOfKeras2):
        return is_keras_2(feature.package)
    return not feature.modules[0].startswith("keras.") or not any(map(is_keras_2, ("keras.src", "keras")))


def is_keras_2(package: str) -> bool:
    """Return whether this package holds Keras 2, by a folder that Keras 3 lacks."""
    return any((Path(path) / "engine").is_dir() for path in getattr(find(package), "__path__", ()))


def never_imported(library: str) -> Iterator[Feature]:
    """Return the features without an imported module, although `keras` or `tf_keras` imports all its modules.

    Keras imports `keras.src.backend.tensorflow` for no other backend.
    """
    backend = getattr(getattr(sys.modules[library], "config", None), "backend", lambda: "tensorflow")()
    for feature in _all():
        belongs = all(module.startswith(f"{library}.") for module in feature.modules)
        needed = backend == "tensorflow" or ".backend.tensorflow." not in feature.modules[0]
        if belongs and needed and applies(feature) and sys.modules.keys().isdisjoint(feature.modules):
            yield feature


def faults() -> list[str]:
    """Return the listed names that the installed TensorFlow, Keras and tf_keras lack, a note for each feature."""
    return [feature.note(fault) for feature in inventory() if (fault := feature.fault()) is not None]
