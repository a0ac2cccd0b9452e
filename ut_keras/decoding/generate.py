"""From a model to a search: what `model.generate` does.

The encoder runs once. The decoder runs over the whole prefix for every new symbol.
"""

import tensorflow as tf

from ut_keras.decoding import beam_search
from ut_keras.layers.transformer_layer import Memory


def generate(model, features, beam_size, alpha, decode_length):
    """See `Transformer.generate`, whose checks of the arguments these are.

    Raises:
        ValueError: if an argument is out of range or the source is missing.
    """
    for name, value, least in (("beam_size", beam_size, 1), ("decode_length", decode_length, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}. Received: {value}.")
    if alpha < 0:
        raise ValueError(f"alpha must be at least 0. Received: {alpha}.")
    features = dict(features)
    if model.encoder is not None:
        if "inputs" not in features:
            raise ValueError(f"features must hold 'inputs'. Received: {sorted(features)}.")
        given = {"inputs": tf.cast(features["inputs"], tf.int32)}
    else:
        prompt = features.get("inputs", features.get("targets"))
        if prompt is None:
            raise ValueError(
                f"features must hold a prompt, 'inputs'. Received: {sorted(features)}."
            )
        given = {"prompt": tf.cast(prompt, tf.int32)}
    search = compiled_search(model)
    return search(given, beam_size, tf.constant(alpha, tf.float32), tf.constant(decode_length))


def compiled_search(model):
    """The model's search as a `tf.function`; one trace serves all batches and lengths."""
    if getattr(model, "_compiled_search", None) is None:

        @tf.function(reduce_retracing=True)
        def run(given, beam_size, alpha, decode_length):
            return _search(model, given, beam_size, alpha, decode_length)

        model._compiled_search = run
    return model._compiled_search


def _search(model, given, beam_size, alpha, decode_length):
    source = given.get("inputs", given.get("prompt"))
    batch_size = tf.shape(source)[0]
    length = tf.shape(source)[1]
    if "prompt" in given:
        next_logits = _continue_prompt(model, _repeat(source, beam_size), decode_length)
        max_length = decode_length
    else:
        max_length = length + decode_length
        next_logits = _translate(model, given, beam_size)
    if beam_size == 1:
        return beam_search.greedy_search(next_logits, batch_size, max_length)
    return beam_search.beam_search(
        next_logits, batch_size, beam_size, max_length, model.softmax.vocab_size, alpha
    )


def _translate(model, given, beam_size):
    """Scores of the next target symbol, for a source that is encoded once."""
    encoded = model.encode(given)
    memory = tuple(_repeat_memory(part, beam_size) for part in model.project_memory(encoded, given))

    def next_logits(ids, position):
        return _logits_at(model, ids, memory, position)

    return next_logits


def _continue_prompt(model, prompt, decode_length):
    """Scores of the next symbol behind a prompt [N, P]."""
    prompt_length = tf.shape(prompt)[1]

    def next_logits(ids, position):
        return _logits_at(model, tf.concat([prompt, ids], 1), None, prompt_length + position)

    return next_logits


def _logits_at(model, ids, memory, position):
    """[N, V]: the scores of the symbol at `position`, given those before it."""
    if not model.decoder_is_causal:  # the room left behind the prefix would be seen
        ids = ids[:, : position + 1]
    decoded = model.decode({"targets": ids}, memory)
    return model.logits(decoded.output[:, position : position + 1])[:, 0]


def _repeat(x, times):
    """Every row `times` times, side by side."""
    return x if times == 1 else tf.repeat(x, times, axis=0)


def _repeat_memory(memory, times):
    key_value = type(memory.key_value)(*(_repeat(part, times) for part in memory.key_value))
    return Memory(key_value, _repeat(memory.attention_mask, times))
