"""The hyperparameters of the Transformer and the Universal Transformer.

    hp = UniversalTransformerHParams(recurrence_type="act").override("hidden_size=64,num_heads=4")

The classes are frozen, flat and typed. The names and defaults are those of T2T's `transformer_base`
and `update_hparams_for_universal_transformer`. The comment "Added" marks a field that T2T does not
have.
"""

import dataclasses
import functools
import math
from typing import Any, Literal, get_args

from ut_keras import parts
from ut_keras.hparam_schema import ignored_fields
from ut_keras.hparam_schema.basic import DIMENSIONS, POSTPROCESS, BasicHParams
from ut_keras.hparam_schema.field import (
    NON_NEGATIVE,
    POSITIVE,
    RATE,
    STEPS,
    STEPS_OR_NONE,
    Check,
    HParamError,
    field,
    training,
)

# The last two values do not exist in T2T.
_Position = Literal["timing", "emb", "none", "timing_from_features", "randomized", "rotary"]
_position = functools.partial(
    field,
    architecture=True,
    supported=("timing", "emb", "none", "randomized", "rotary", None),
    parts=parts.position_signals,
)
_RANDOMIZED = (("pos", ("randomized",)),)
_Recurrence = Literal["basic", "act", "highway", "skip", "dwa", "gru", "lstm"]
# Conditions under which a field is read (see `Facts.read_if`).
_ACT = (("recurrence_type", ("act",)),)
_NOT_ACT = (("recurrence_type", tuple(name for name in get_args(_Recurrence) if name != "act")),)
_GATED = (("recurrence_type", ("highway", "skip")),)
_DWA = (("recurrence_type", ("dwa",)),)
_LSTM = (("recurrence_type", ("lstm",)),)
_UNITS = (("recurrence_type", ("gru", "lstm")),)
_LAYERS = (("recurrence_type", ("basic", "act", "highway", "skip", "dwa")),)
_OF_T2T = ("basic", "accumulated", "global", "random")
_WITH_REMAINDER = (*_ACT, ("act_type", _OF_T2T))
_LEARNED = ("basic", "accumulated", "global", "ponder_net", "stick_breaking", "q_halt")
_WITH_COST = (*_ACT, ("act_type", (*_LEARNED, "random")))
_WITH_BIAS = (*_ACT, ("act_type", _LEARNED))
_PONDER_NET = (*_ACT, ("act_type", ("ponder_net",)))
_GEOMETRIC = (("self_attention_type", ("geometric",)),)
_COPY_GATE = (("copy_gate", (True,)),)
_LOCAL = (("self_attention_type", ("local_mask_right", "local_unmasked")),)
_FULLY_CONNECTED = (("transformer_ffn_type", ("fc",)),)
_MIXED = (
    ("mix_with_transformer", ("before_ut", "after_ut", "before_ut,after_ut", "after_ut,before_ut")),
)
_DENSE = (*_FULLY_CONNECTED, ("ffn_layer", ("dense_relu_dense", "conv_hidden_relu", "swiglu")))
_HIDDEN_LAYER = (
    ("ffn_layer", ("dense_relu_dense", "conv_hidden_relu", "conv_relu_conv", "swiglu")),
)
_CONVOLUTION = (*_FULLY_CONNECTED, ("ffn_layer", ("conv_relu_conv",)))
_PARAMETERS = (*_FULLY_CONNECTED, ("ffn_layer", ("parameter_attention",)))
_GATES = Check(
    "letters from s (state), t (transformed state) and i (inputs)",
    lambda text: text != "" and set(text) <= set("sti"),
)

RESIDUAL_BY_STEPS = "1/sqrt(N)"


def _is_residual_scale(text):
    try:
        return text == RESIDUAL_BY_STEPS or 0 < float(text) < math.inf
    except ValueError:
        return False


_SCALE = Check(f"a finite number above 0 or {RESIDUAL_BY_STEPS!r}", _is_residual_scale)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerHParams(ignored_fields.TransformerIgnoredFields, BasicHParams):
    """Hyperparameters of a Transformer, with the defaults of T2T's `transformer_base`."""

    # --- Input pipeline -------------------------------------------------------------------------
    # Whether the decoder reads the inputs before the targets (see `models.prepended`).
    prepend_mode: ignored_fields.PrependMode = field("none", architecture=True)

    # --- Size -----------------------------------------------------------------------------------
    filter_size: int = field(2048, POSITIVE, architecture=True)
    # In the next two fields, 0 means num_hidden_layers.
    num_encoder_layers: int = field(0, STEPS_OR_NONE, architecture=True)
    num_decoder_layers: int = field(0, STEPS_OR_NONE, architecture=True)

    # --- Attention ------------------------------------------------------------------------------
    num_heads: int = field(8, POSITIVE, architecture=True)
    # In the next two fields, 0 means hidden_size.
    attention_key_channels: int = field(0, NON_NEGATIVE, architecture=True)
    attention_value_channels: int = field(0, NON_NEGATIVE, architecture=True)
    attention_dropout: float = training(0.1, RATE)
    attention_dropout_broadcast_dims: str = training("", check=DIMENSIONS, comma_separated=True)
    # Added: the number of positions in a block of `block_attention`. If it is None, the lengths
    # decide whether attention is computed by blocks.
    attention_block_size: int | None = training(None, POSITIVE)
    self_attention_type: Literal[
        "dot_product",
        "dot_product_relative",
        "dot_product_relative_v2",
        "dot_product_unmasked_relative_v2",
        "local_mask_right",
        "local_relative_mask_right",
        "local_within_block_mask_right",
        "local_unmasked",
        "masked_dilated_1d",
        "unmasked_dilated_1d",
        "dot_product_relative_xl",  # T2T does not have this value and the next one
        "geometric",
    ] = field(
        "dot_product",
        architecture=True,
        supported=(
            "dot_product_relative",
            "dot_product_relative_v2",
            "local_mask_right",
            "local_unmasked",
            "dot_product_relative_xl",
            "geometric",
        ),
        parts=parts.self_attentions,
    )
    block_length: int = field(128, POSITIVE, read_if=_LOCAL)  # T2T's sets do not have this field
    hard_attention_k: int = field(0, NON_NEGATIVE)
    # Added: whether the attention weights are normalized to a sum of 1.
    geometric_normalize_score: bool = field(True, architecture=True, read_if=_GEOMETRIC)
    # Added: whether attention_dropout drops keys instead of weights.
    geometric_drop_keys: bool = training(False, read_if=_GEOMETRIC)
    unidirectional_encoder: bool = field(
        False, architecture=True
    )  # whether encoder positions attend only backward

    # --- Memory of training --------------------------------------------------------------------
    # Added: whether the gradient recomputes each layer or step, instead of keeping its tensors.
    recompute_grad: bool = training(False)

    # --- Classification with an encoder ---------------------------------------------------------
    # Added: how positions are pooled. T2T's modality computes the mean including padding.
    class_label_pooling: Literal["mean", "masked_mean", "last"] = field("mean", architecture=True)

    # --- Transition -----------------------------------------------------------------------------
    ffn_layer: Literal[
        "dense_relu_dense",
        "conv_hidden_relu",
        "conv_relu_conv",
        "conv_hidden_relu_with_sepconv",
        "parameter_attention",
        "sru",
        "local_moe",
        "local_moe_tpu",
        "none",
        "swiglu",  # T2T does not have this value
    ] = field(
        "dense_relu_dense",
        architecture=True,
        supported=("conv_hidden_relu", "conv_relu_conv", "parameter_attention", "sru", "swiglu"),
        parts=parts.transitions,
        read_if=_FULLY_CONNECTED,
    )
    relu_dropout: float = training(0.1, RATE, read_if=_HIDDEN_LAYER)
    relu_dropout_broadcast_dims: str = training(
        "", check=DIMENSIONS, comma_separated=True, read_if=_DENSE
    )
    use_pad_remover: bool = field(True)
    # Added: postprocessing after the transition only. None means layer_postprocess_sequence.
    ffn_postprocess_sequence: str | None = field(None, check=POSTPROCESS, architecture=True)
    conv_first_kernel: int = field(3, POSITIVE, architecture=True, read_if=_CONVOLUTION)
    parameter_attention_key_channels: int = field(
        0, NON_NEGATIVE, architecture=True, read_if=_PARAMETERS
    )
    parameter_attention_value_channels: int = field(
        0, NON_NEGATIVE, architecture=True, read_if=_PARAMETERS
    )

    # --- Added to the embeddings ----------------------------------------------------------------
    pos: _Position | None = _position("timing")
    # Added: the number of positions from which the positions of an example are sampled.
    pos_randomized_range: int = field(2048, POSITIVE, read_if=_RANDOMIZED)
    use_target_space_embedding: bool = field(True, architecture=True)
    # Added: dropout of the embeddings. None means layer_prepostprocess_dropout.
    embedding_dropout: float | None = training(None, RATE)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("attention_key_channels", "attention_value_channels"):
            name = name if getattr(self, name) else "hidden_size"
            if getattr(self, name) % self.num_heads:
                raise HParamError(
                    f"{name} must be divisible by num_heads. "
                    f"Received: {name}={getattr(self, name)}, num_heads={self.num_heads}."
                )

    def architecture(self) -> dict[str, Any]:
        of_pos = {"emb": ["max_length"], "randomized": ["max_length", "pos_randomized_range"]}
        read = of_pos.get(str(self.pos), [])
        return super().architecture() | {name: getattr(self, name) for name in read}


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniversalTransformerHParams(
    ignored_fields.UniversalTransformerIgnoredFields, TransformerHParams
):
    """Hyperparameters of a Universal Transformer.

    The model is adaptive if `recurrence_type` is "act".
    """

    # --- Defaults that differ from the Transformer's --------------------------------------------
    pos: _Position | None = _position(None)

    # --- Recurrence -----------------------------------------------------------------------------
    recurrence_type: _Recurrence = field("basic", architecture=True, parts=parts.recurrences)
    num_rec_steps: int = field(6, STEPS, architecture=True, read_if=_NOT_ACT)
    # Added: how the number of steps is sampled in training, or computed from the length.
    num_rec_steps_sampling: Literal["uniform", "lognormal_poisson", "by_length"] | None = field(
        None, parts=parts.step_samplings
    )
    recurrence_input_injection: Literal["none", "add", "concat"] = field(
        "none", architecture=True, parts=parts.injections
    )
    # Added: the state before the first step. "normal" requires input injection.
    recurrence_initial_state: Literal["embedding", "normal"] = field(
        "embedding", architecture=True, parts=parts.initial_states
    )
    # Added: the weight of an additional loss, the relative change of the state in the last step. 0
    # means that there is no such loss.
    recurrence_fixed_point_loss_weight: float = training(0.0, NON_NEGATIVE)
    # Added: training visits each batch in M segments of num_rec_steps (or act_max_steps) steps. The
    # state is carried without gradient, and each segment has its own update. Inference takes all
    # segments. The training graph contains each segment once, which limits M.
    recurrence_segments: int = field(1, "[1, 64]", architecture=True)
    # 0 means that only the last step has a loss.
    recurrence_supervised_every: int = training(0, STEPS_OR_NONE)
    # Added: the number of last steps through which the gradient passes. None means all steps.
    recurrence_backprop_steps: int | None = training(None, STEPS)
    copy_gate: bool = field(False, architecture=True)
    copy_gate_dropout: float = training(0.0, RATE, read_if=_COPY_GATE)
    # After the activation "relu", relu_dropout is also applied.
    copy_gate_activation: Literal["gelu", "relu"] = field(
        "gelu", architecture=True, read_if=_COPY_GATE
    )
    # Number of layers in each step.
    num_inrecurrence_layers: int = field(1, STEPS, architecture=True, read_if=_LAYERS)
    # Added: the factor of the term that each sublayer adds to the state. In "1/sqrt(N)", N is the
    # number of steps.
    recurrence_residual_scale: str = field(
        "1", check=_SCALE, architecture=True, number_as_text=True, read_if=_LAYERS
    )
    transformer_ffn_type: Literal["fc", "sepconv"] = field(
        "fc", architecture=True, parts=parts.transitions
    )
    mix_with_transformer: (
        Literal["before_ut", "after_ut", "before_ut,after_ut", "after_ut,before_ut"] | None
    ) = field(None, architecture=True, comma_separated=True)
    num_mixedin_layers: int = field(2, STEPS, architecture=True, read_if=_MIXED)
    add_sru: bool = field(False, architecture=True)

    # --- Timing signals, added in every step ----------------------------------------------------
    add_position_timing_signal: bool = field(True, architecture=True)
    position_start_index: Literal["random", "step"] | None = field(
        None, read_if=(("add_position_timing_signal", (True,)),)
    )
    add_step_timing_signal: bool = field(True, architecture=True)
    step_timing_signal_type: Literal["learned", "sinusoid"] = field(
        "learned", architecture=True, read_if=(("add_step_timing_signal", (True,)),)
    )
    add_or_concat_timing_signal: Literal["add", "concat"] = field("add", architecture=True)

    # --- Adaptive computation time (recurrence_type="act") --------------------------------------
    act_type: Literal[
        "basic",
        "accumulated",
        "global",
        "random",
        "ponder_net",
        "stick_breaking",
        "convergence",
        "q_halt",
    ] = field("basic", architecture=True, parts=parts.haltings, read_if=_ACT)
    act_max_steps: int = field(12, STEPS, architecture=True, read_if=_ACT)
    act_halting_bias_init: float = training(1.0, read_if=_WITH_BIAS)
    act_epsilon: float = field(0.01, "(0, 1)", read_if=_ACT)
    act_loss_weight: float = training(0.01, NON_NEGATIVE, read_if=_WITH_COST)
    # Added: the next three fields. Values other than the defaults follow the paper where T2T
    # differs from the paper.
    act_halted_state: Literal["transform", "copy"] = field("transform", read_if=_ACT)
    act_force_final_remainder: bool = field(False, read_if=_WITH_REMAINDER)
    act_mask_padding: bool = field(False, read_if=_ACT)
    # The inverse of the expected number of steps under the prior.
    ponder_net_prior: float = training(0.2, "(0, 1)", read_if=_PONDER_NET)
    ponder_net_output: Literal["threshold", "mean"] = field("threshold", read_if=_PONDER_NET)

    # --- highway and skip -----------------------------------------------------------------------
    # T2T's sets do not have this field.
    gates_inputs: str = field("i", check=_GATES, architecture=True, read_if=_GATED)
    gate_ffn_layer: Literal["dense", "dense_dropconnect", "dense_relu_dense"] = field(
        "dense", architecture=True, read_if=_GATED
    )
    dropconnect_dropout: float = training(
        0.0, RATE, read_if=(*_GATED, ("gate_ffn_layer", ("dense_dropconnect",)))
    )
    transform_bias_init: float = training(-1.0, read_if=_GATED)
    couple_carry_transform_gates: bool = field(True, architecture=True, read_if=_GATED)

    # --- dwa (attention over the states of earlier steps) ---------------------------------------
    depth_embedding: bool = field(True, architecture=True, read_if=_DWA)
    dwa_elements: bool = field(True, architecture=True, read_if=_DWA)

    # --- gru and lstm ---------------------------------------------------------------------------
    lstm_forget_bias: float = field(1.0, read_if=_LSTM)
    use_memory_as_final_state: bool = field(False, read_if=_LSTM)
    add_ffn_unit_to_the_transition_function: bool = field(False, architecture=True, read_if=_UNITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        name = "act_max_steps" if self.recurrence_type == "act" else "num_rec_steps"
        steps = self.recurrence_backprop_steps
        if steps is not None and steps > getattr(self, name):
            raise HParamError(
                f"recurrence_backprop_steps must be at most {name}={getattr(self, name)}. "
                f"Received: recurrence_backprop_steps={steps}."
            )
        if steps is not None and self.recurrence_supervised_every:
            raise HParamError(
                "recurrence_backprop_steps cannot be combined with recurrence_supervised_every, "
                "whose losses of earlier steps need a gradient. "
                f"Received: recurrence_backprop_steps={steps}, "
                f"recurrence_supervised_every={self.recurrence_supervised_every}."
            )

        if self.recurrence_segments > 1 and self.optimizer_multistep_accumulate_steps > 1:
            raise HParamError(
                "recurrence_segments requires optimizer_multistep_accumulate_steps of at most 1, "
                "because each segment has its own update. "
                f"Received: recurrence_segments={self.recurrence_segments}, "
                "optimizer_multistep_accumulate_steps="
                f"{self.optimizer_multistep_accumulate_steps}."
            )

    @property
    def residual_scale(self) -> float:
        """The value of `recurrence_residual_scale` as a number."""
        if self.recurrence_residual_scale != RESIDUAL_BY_STEPS:
            return float(self.recurrence_residual_scale)
        is_adaptive = self.recurrence_type == "act"
        return (self.act_max_steps if is_adaptive else self.num_rec_steps) ** -0.5

    def ignored_reason(self, name: str) -> str:
        if name == "pos" and self.add_position_timing_signal and self.pos in ("timing", "emb"):
            return "add_position_timing_signal=True adds the position in every step instead"
        if name == "relu_dropout" and self._reads_relu_dropout_without_ffn_layer():
            return ""
        return super().ignored_reason(name)

    def _reads_relu_dropout_without_ffn_layer(self):
        is_gated = self.recurrence_type in ("highway", "skip")
        return (
            self.transformer_ffn_type != "fc"
            or (self.copy_gate and self.copy_gate_activation == "relu")
            or (is_gated and self.gate_ffn_layer == "dense_relu_dense")
        )

    def architecture(self) -> dict[str, Any]:
        fields = super().architecture()
        rule, steps = fields.pop("act_type"), fields.pop("num_rec_steps")
        adaptive_steps = fields.pop("act_max_steps")
        if self.recurrence_type == "act":
            steps = adaptive_steps
            # The rule "convergence" has no weights, and training always runs all steps.
            if rule == "convergence":
                fields["recurrence_type"] = "basic"
            else:
                fields["act_type"] = rule
        # The number of steps may change after training, with two exceptions: an embedding table may
        # have a row per step, and the number of steps may define the scale of the residuals.
        table = self.add_step_timing_signal and self.step_timing_signal_type == "learned"
        by_steps = self.recurrence_residual_scale == RESIDUAL_BY_STEPS
        if table or by_steps or (self.recurrence_type == "dwa" and self.depth_embedding):
            fields["num_rec_steps or act_max_steps"] = steps
        return fields
