"""A model that writes symbols, or says how likely given ones are."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ut_keras.decoding import generate as generate_lib
from ut_keras.decoding import score as score_lib
from ut_keras.decoding.beam_search import Decoded
from ut_keras.layers import symbol_ids


class SymbolWriter:
    """Comes before a `keras.Model` with `make_next_logits`, `specs`, `decoder`, `class_labels`."""

    def generate(
        self,
        features: Mapping[str, Any],
        beam_size: int = 1,
        alpha: float = 0.6,
        decode_length: int = 50,
        **options: Any,
    ) -> Decoded:
        """Writes the targets.

        On several cores this is fastest where the program began with
        `tf.config.threading.set_intra_op_parallelism_threads(1)`.

        Args:
            features: dict with "inputs" [B, S]. For a language model, "targets" [B, P] or
                "inputs" [B, P] is the prompt, which the result continues.
            beam_size: int. 1 is greedy.
            alpha: float. Length penalty ((5 + length) / 6)^alpha of beam search.
            decode_length: int. Positions beyond the source's (or the prompt's) length; as in T2T
                that of the padded batch, unless own_room=True.
            options: own_room, min_length, eos_penalty, no_repeat_ngram_size, forced_prefix,
                temperature, top_k, top_p, seed, cache, num_steps: see
                `decoding.generate.Options`.
        Returns:
            `Decoded`: ids int32 [B, beams, <= S + decode_length], 0 behind EOS; scores float32
            [B, beams], best first.
        Raises:
            ValueError: for arguments or ids out of range, or a model without symbol targets.
        """
        self._check_writes_symbols("generate")
        asked = generate_lib.Options(beam_size, alpha, decode_length, **options)
        # Of a language model either is a prompt.
        self._check_ids(features, ["inputs"] if "inputs" in self.specs else ["inputs", "targets"])
        return generate_lib.generate(self, features, asked)

    def score(self, features: Mapping[str, Any]) -> tf.Tensor:
        """How likely given targets are.

        Args:
            features: dict with "targets" [B, T] and, but for language models, "inputs" [B, S].
        Returns:
            float32 [B]: log probability of the targets up to their padding, EOS included if it is
            there; no length penalty.
        Raises:
            ValueError: if a feature is missing, ids are out of range, or the model's targets are
                class labels.
        """
        self._check_writes_symbols("score")
        self._check_ids(features, list(self.specs))
        return score_lib.score(self, features)

    def _check_ids(self, features, names):
        """Here, for what is compiled does not say which feature it was."""
        symbol_ids.check_features(features)
        for name in names:
            if name in features:
                spec = self.specs.get(name, self.specs["targets"])
                symbol_ids.as_ids(features[name], name, spec.vocab_size)

    def _check_writes_symbols(self, method):
        if self.class_labels or self.decoder is None:
            raise ValueError(
                f"{method} needs a model that writes symbols; for classes take the argmax of the "
                "logits. Received: a model whose targets are class labels."
            )
