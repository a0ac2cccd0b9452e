"""Convert T2T's variables and checkpoints to models of ut_keras, and back.

    model = t2t_import.load_checkpoint("t2t_run", "transformer", problem.target_space_id)
    variables = t2t_import.export_variables(model)         {T2T's variable name: array}

The layers have the names of T2T's scopes, so the path of a weight is nearly T2T's variable name.
`older_universal` converts the names of older T2T versions to those of T2T 1.15. The rules below
make the remaining changes. T2T splits an embedding table into shards, while ut_keras stores the
table in one weight.
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras import hparam_schema, models
from ut_keras.data.features import FeatureSpec
from ut_keras.files import file_error, json_file
from ut_keras.hparam_schema import older_universal
from ut_keras.ops import finite

_TARGET_SPACES = "body/target_space_embedding/kernel"
_SMALLEST_SHARE = 1e-6  # of the largest statistics, for a row that had gradients

# Rules that convert the path of a weight to T2T's name within the model's scope. They are applied
# in this order.
_RENAMING_RULES = (
    (r"/depth/(before|recurrence|after)/", r"/depth/"),
    (r"/depth/(signals/)?timing/dense/", r"/depth/{timing_dense}/"),
    (r"^(encoder|decoder)/depth/", r"body/\1/{depth}"),
    (r"^(encoder|decoder)/layer_prepostprocess/", r"body/\1/layer_prepostprocess/"),
    (r"/?block/|signals/|timing/", r""),
    (r"unit_layer_0/", r""),
    (r"/map/(conv\d)/", r"_\1/"),
    (r"/map/", r"/"),
    (r"/(relative_positions_\w+)$", r"/dot_product_attention_relative/\1/embeddings"),
    (r"/(\w+_relative_embeddings)$", r"/dot_product_self_attention_relative_v2/\1"),
    (r"pondering/", r"pondering/dense/"),
    (r"/dense_relu_dense/", r"/"),
    (r"(sepconv/conv\d)/pointwise/kernel", r"\1_single/pointwise_kernel"),
    (r"(sepconv/conv\d)/pointwise/", r"\1_single/"),
    (r"(sepconv/conv\d)/depthwise", r"\1_single/depthwise"),
    (r"^encoder/(d?cgru_\d+)/(\w+)/", r"body/{model}/\1/\2_single/"),
    (r"^encoder/(cell_\d+)/", r"body/{model}/encoder/rnn/multi_rnn_cell/\1/lstm_cell/"),
    (
        r"^encoder/(fw|bw)/(cell_\d+)/",
        r"body/{model}/encoder/bidirectional_rnn/\1/multi_rnn_cell/\2/lstm_cell/",
    ),
    (r"^decoder/(cell_\d+)/", r"body/{model}/decoder/rnn/{wrapper}multi_rnn_cell/\1/lstm_cell/"),
    (r"^decoder/(attention_layer(_\d+)?)/", r"body/{model}/decoder/rnn/{wrapper}\1/"),
    (
        r"^decoder/(attention_v)(_\d+)?$",
        r"body/{model}/decoder/rnn/{wrapper}bahdanau_attention\2/\1",
    ),
    (
        r"^decoder/query_layer/",
        r"body/{model}/decoder/rnn/{wrapper}bahdanau_attention/query_layer/",
    ),
    (r"^decoder/memory_layer/", r"body/{model}/memory_layer/"),
    (r"^decoder/dense/", r"body/{model}/decoder/dense/"),
    (r"^target_space_embedding/", r"body/target_space_embedding/"),
    (r"^source_position/embedding", r"body/inputs_positional_embedding"),
    (r"^target_position/embedding", r"body/targets_positional_embedding"),
    (r"^class_label_head/", r"class_label_modality_{classes}/class_label_modality_{classes}/"),
)


class _Entry(NamedTuple):
    """The T2T variables that contain one weight."""

    variable: object  # Keras variable
    names: tuple  # names of T2T's variables; an embedding table with shards has several variables
    shapes: tuple  # shapes of T2T's variables


def build_model(
    model_name: str,
    t2t_hparams: Mapping[str, Any],
    variables: Mapping[str, np.ndarray],
    target_space_id: int = 0,
) -> keras.Model:
    """Return a model with the values of T2T's variables.

    The variables determine the vocabulary sizes, whether targets are classes or symbols, and
    whether there are inputs.

    Args:
        model_name: str. T2T's name of the model.
        t2t_hparams: dict of T2T's hparams.
        variables: dict from T2T's variable name to array. T2T of any version wrote them.
        target_space_id: int. The problem's id of the target text, which no variable contains.

    Returns:
        keras.Model.

    Raises:
        ValueError: if a variable is missing, does not belong to the model, or has a wrong shape or
            value.
    """
    model_name = older_universal.current_model_name(model_name)
    hp = hparam_schema.from_dict(_without_ignored_hparams(model_name, t2t_hparams))
    names = older_universal.renamed(variables, t2t_hparams)
    variables = dict(zip(names, variables.values(), strict=True))
    specs = _read_specs(model_name, variables)
    model = models.from_specs(model_name, hp, specs, target_space_id)
    entries = weight_entries(model)
    expected = {name for entry in entries for name in entry.names}
    if expected != set(variables):
        raise ValueError(
            "variables must be those of the model. "
            f"Received: unknown variables {sorted(set(variables) - expected)}, "
            f"missing variables {sorted(expected - set(variables))}."
        )
    for entry in entries:
        entry.variable.assign(_merge_shards(entry, variables))
    return model


def export_variables(
    model: keras.Model, values: Iterable[Any] | None = None
) -> dict[str, np.ndarray]:
    """Return the weights of a model as T2T's variables, the inverse of `build_model`.

    Args:
        model: a model of ut_keras.
        values: arrays in the order of `model.trainable_variables`, such as gradients. By default,
            the function uses the weights.

    Returns:
        dict from T2T's variable name to array.
    """
    if values is None:
        values = model.trainable_variables
    exported = {}
    for entry, value in zip(weight_entries(model), values, strict=True):
        exported.update(_split_into_shards(entry, np.asarray(tf.convert_to_tensor(value))))
    return exported


def load_checkpoint(
    t2t_output_dir: str, model_name: str, target_space_id: int | None = None
) -> keras.Model:
    """Return a model with the weights of the newest checkpoint of a T2T run.

    The id of the target text selects a row of the model's embedding of target spaces. No variable
    contains the id. However, an optimizer has statistics only for the row that the run used.

    Args:
        t2t_output_dir: str. Folder with `hparams.json` and `model.ckpt-*`.
        model_name: str. T2T's name of the model.
        target_space_id: int. The problem's id of the target text. None means the id that the
            statistics of the optimizer show. If there are none, the id is 0, and the function
            warns if the model reads the id.

    Returns:
        keras.Model.

    Raises:
        ValueError: if there is no checkpoint, if its variables do not match the model, or if the
            run used another target_space_id.
    """
    t2t_output_dir = file_error.checked_path(t2t_output_dir, "t2t_output_dir")
    model_name = older_universal.current_model_name(model_name)
    kernel = f"{model_name}/{_TARGET_SPACES}"
    slots = (f"training/{kernel}/", f"training/LazyAdam/{kernel}/")  # see `t2t.slots`
    variables = read_checkpoint(t2t_output_dir, f"{model_name}/", *slots)
    statistics = [variables.pop(name) for name in sorted(variables) if name.startswith("training/")]
    if not variables:
        scopes = {name.partition("/")[0] for name in _variable_names(t2t_output_dir)}
        current = {older_universal.current_model_name(scope) for scope in scopes}
        found = sorted(current & set(models.names())) or ["none"]
        raise ValueError(
            f"The checkpoint must contain variables of the model {model_name}. "
            f"Received: variables of {', '.join(found)}."
        )
    used = _used_target_space(statistics, len(variables.get(kernel, ())))
    if target_space_id is None:
        if used is None and kernel in variables:
            warnings.warn(
                f"target_space_id should be given for {t2t_output_dir}, whose checkpoint does not "
                "show it. Using 0.",
                stacklevel=2,
            )
        target_space_id = used or 0
    elif used not in (None, target_space_id):
        raise ValueError(
            f"target_space_id must be {used}, as in the run in {t2t_output_dir}. "
            f"Received: {target_space_id}. Use a problem with this target_space_id."
        )
    t2t_hparams = json_file.read(os.path.join(t2t_output_dir, "hparams.json"))
    return build_model(model_name, t2t_hparams, variables, target_space_id)


def _variable_names(t2t_output_dir):
    path = newest_checkpoint(t2t_output_dir)
    return [name for name, _ in tf.train.list_variables(path)]


def _used_target_space(statistics, num_spaces):
    """Return the only row of the target spaces' embedding that had gradients, or None.

    Args:
        statistics: list of arrays, the slots of T2T's optimizer for the embedding, in the order of
            their names. The first slot has one entry or one row per target space.
        num_spaces: int. The number of rows of the embedding.
    """
    rows = np.atleast_1d(np.abs(statistics[0])) if statistics else np.zeros(0)
    if not num_spaces or len(rows) != num_spaces:
        return None
    sizes = rows.reshape(len(rows), -1).sum(axis=1)
    # The slots of the other rows are 0, or have about the size of Adafactor's epsilon, 1e-30.
    (used,) = np.nonzero(sizes > _SMALLEST_SHARE * sizes.max())
    return int(used[0]) if len(used) == 1 else None


def read_checkpoint(t2t_output_dir: str, *beginnings: str) -> dict[str, np.ndarray]:
    """Return those variables of a T2T run whose names begin with one of `beginnings`.

    Args:
        t2t_output_dir: str. Folder with `hparams.json` and `model.ckpt-*`.
        *beginnings: str. The possible beginnings of the names.

    Returns:
        dict from T2T 1.15's variable name to array.

    Raises:
        ValueError: if there is no checkpoint.
    """
    t2t_output_dir = file_error.checked_path(t2t_output_dir, "t2t_output_dir")
    path = newest_checkpoint(t2t_output_dir)
    if path is None or not os.path.exists(os.path.join(t2t_output_dir, "hparams.json")):
        is_folder = os.path.isdir(t2t_output_dir)
        received = sorted(os.listdir(t2t_output_dir))[:5] if is_folder else "no such folder"
        raise ValueError(
            "t2t_output_dir must contain hparams.json and a checkpoint. "
            f"Received: {t2t_output_dir} with {received}."
        )
    reader = tf.train.load_checkpoint(path)
    names = sorted(reader.get_variable_to_shape_map())
    t2t_hparams = json_file.read(os.path.join(t2t_output_dir, "hparams.json"))
    current = zip(older_universal.renamed(names, t2t_hparams), names, strict=True)
    return {name: reader.get_tensor(old) for name, old in current if name.startswith(beginnings)}


def newest_checkpoint(t2t_output_dir: str) -> str | None:
    """Return the path of the newest checkpoint of a T2T run, or None if there is none.

    The file `checkpoint` can contain the absolute path of another folder if the run was copied. The
    checkpoint of this name in `t2t_output_dir` is used, never a checkpoint in the other folder.
    """
    t2t_output_dir = file_error.checked_path(t2t_output_dir, "t2t_output_dir")
    state = tf.train.get_checkpoint_state(t2t_output_dir)
    if state is None or not state.model_checkpoint_path:
        return None
    path = os.path.join(t2t_output_dir, os.path.basename(state.model_checkpoint_path))
    return path if os.path.exists(path) or os.path.exists(f"{path}.index") else None


def _is_universal(model_name):
    return model_name.startswith("universal_transformer")


def _is_lstm(model_name):
    return model_name.startswith("lstm_")


def _is_neural_gpu(model_name):
    return model_name in ("neural_gpu", "diagonal_neural_gpu")


def _lstm_scope(model_name):
    return model_name.replace("bidirectional", "bid")


def _without_ignored_hparams(model_name, t2t_hparams):
    """Return the hparams without fields that T2T's model ignores but ut_keras uses."""
    current = hparam_schema.for_t2t_model(model_name, t2t_hparams)
    if _is_lstm(model_name) or _is_neural_gpu(model_name):
        return current
    ignored = {"block_length"}  # T2T's attention always uses blocks of 128 positions
    if _is_universal(model_name):
        ignored |= {"heads_share_relative_embedding", "add_relative_to_values"}
    return {name: value for name, value in current.items() if name not in ignored}


def _read_specs(model_name, variables):
    """Derive feature specs from names: symbol_modality_24_16/input_emb/weights_0."""
    tables: dict[str, set[int]] = {}  # maps a kind, such as "input_emb", to vocabulary sizes
    classes = None
    for name in variables:
        symbol = re.match(rf"{model_name}/symbol_modality_(\d+)_\d+/(\w+)/weights_", name)
        if symbol:
            tables.setdefault(symbol.group(2), set()).add(int(symbol.group(1)))
        class_label = re.match(rf"{model_name}/class_label_modality_(\d+)_", name)
        if class_label:
            classes = int(class_label.group(1))
    shared = tables.get("shared", set())
    targets = tables.get("softmax") or tables.get("target_emb") or shared
    specs = {}
    if classes is not None:
        specs["targets"] = FeatureSpec(classes, "class_label")
    elif targets:
        specs["targets"] = FeatureSpec(min(targets))
    else:
        raise ValueError(
            f"variables must contain an embedding of {model_name}. "
            f"Received: {sorted(variables)[:3]}."
        )
    scope = f"{_lstm_scope(model_name)}/" if _is_lstm(model_name) else ""
    encoder = f"{model_name}/body/{scope}encoder/"
    # All variables of a Neural GPU are in one scope, and the model always has inputs.
    if _is_neural_gpu(model_name) or any(name.startswith(encoder) for name in variables):
        sizes = tables.get("input_emb") or shared
        # If there are two shared tables, the softmax uses one and the inputs use the other.
        specs["inputs"] = FeatureSpec(min(sizes - targets if len(sizes) > 1 else sizes))
    return specs


def weight_entries(model: keras.Model) -> list[Any]:
    """Return a list with the `_Entry` of each of `model.trainable_variables`."""
    return [
        _table_entry(model, variable) or _entry(model, variable)
        for variable in model.trainable_variables
    ]


def _entry(model, variable):
    depth, timing_dense = "", "dense"
    if _is_universal(model.name):
        depth = f"universal_transformer_{model.hparams.recurrence_type}/"
        if model.hparams.recurrence_type == "dwa":  # here "dense" is the name of another layer
            timing_dense = "dense_1"
    classes = f"{model.specs['targets'].vocab_size}_{model.hparams.hidden_size}"
    name = variable.path
    for pattern, replacement in _RENAMING_RULES:
        name = re.sub(pattern, replacement, name)
    name = name.format(
        depth=depth,
        timing_dense=timing_dense,
        classes=classes,
        model=_lstm_scope(model.name),
        wrapper="attention_wrapper/" if "attention" in model.name else "",
    )
    shape = tuple(variable.shape)
    if name.endswith("pointwise_kernel"):
        shape = (1, 1, *shape)
    return _Entry(variable, (f"{model.name}/{name}",), (shape,))


def _table_entry(model, variable):
    """Return the entry of an embedding table, or None for any other weight."""
    kinds = {"source_embedding": "input_emb", "target_embedding": "target_emb"}
    owner = variable.path.split("/")[0]
    if variable.path != f"{owner}/weights":
        return None
    shares_softmax = model.softmax is not None and model.softmax is model.target_embedding
    is_shared = shares_softmax or model.hparams.shared_embedding
    kind = "shared" if is_shared and owner != "softmax" else kinds.get(owner, owner)
    vocab_size, width = variable.shape
    shards = model.hparams.symbol_modality_num_shards
    rows = [vocab_size // shards + (shard < vocab_size % shards) for shard in range(shards)]
    scope = f"{model.name}/symbol_modality_{vocab_size}_{model.hparams.hidden_size}/{kind}"
    return _Entry(
        variable,
        tuple(f"{scope}/weights_{shard}" for shard in range(shards)),
        tuple((row, width) for row in rows),
    )


def _merge_shards(entry, variables):
    """Compute the value of a weight from T2T's variables."""
    parts = [np.asarray(variables[name]) for name in entry.names]
    for name, part, shape in zip(entry.names, parts, entry.shapes, strict=True):
        if part.shape != shape:
            raise ValueError(f"{name} must have the shape {shape}. Received: {part.shape}.")
    check_finite(entry.names, variables)
    return np.concatenate(parts).reshape(entry.variable.shape)


def check_finite(names: Iterable[str], variables: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for the first T2T variable that holds a NaN or an infinity."""
    if name := finite.first_non_finite((name, variables[name]) for name in names):
        raise ValueError(f"T2T's variables must be finite. Received: {name}, with NaN or inf.")


def _split_into_shards(entry, value):
    """Split the value of a weight into T2T's variables."""
    if len(entry.names) == 1:
        return {entry.names[0]: value.reshape(entry.shapes[0])}
    ends = np.cumsum([shape[0] for shape in entry.shapes])
    return dict(zip(entry.names, np.split(value, ends[:-1]), strict=True))
