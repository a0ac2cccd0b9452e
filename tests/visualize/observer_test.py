import numpy as np
import pytest

from tests.visualize import small_models
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import UsageError
from ut_keras.text import text_encoder
from ut_keras.visualize import observer

ENCODERS = small_models.ENCODERS
WORDS = small_models.ids("a b c") + [1]
TARGETS = small_models.ids("d e") + [1]
FEATURES = {"inputs": [WORDS + [0, 0]], "targets": [TARGETS + [0]]}


def test_observe_returns_the_arrays_of_inspect():
    model = small_models.build("universal_transformer", small_models.ADAPTIVE)
    seen = observer.observe(model, FEATURES, ENCODERS)
    whole = model.inspect({"inputs": np.array([WORDS]), "targets": np.array([TARGETS])})
    expected = {
        "encoder": whole.encoder.attention_weights,
        "decoder": whole.decoder.attention_weights,
        "memory": whole.decoder.memory_attention_weights,
    }
    assert list(seen.maps) == list(expected)
    for kind, weights in expected.items():
        np.testing.assert_array_equal(seen.maps[kind].weights, weights[:, 0], kind)
        np.testing.assert_allclose(seen.maps[kind].weights.sum(axis=-1), 1, rtol=1e-5)
    for stack, of in (("encoder", whole.encoder), ("decoder", whole.decoder)):
        np.testing.assert_array_equal(seen.ponder[stack].times, of.ponder_times[0])
    assert (seen.inputs, seen.outputs) == ("a b c", "d e")
    lines = repr(seen).splitlines()  # A notebook shows these lines.
    assert lines[0] == "'a b c' -> 'd e'" and len(lines) == 6
    times = [f"{time:.3g}" for time in seen.ponder["decoder"].times]
    assert lines[2] == f"steps of the decoder: d:{times[0]} e:{times[1]} <EOS>:{times[2]}"
    shape = list(seen.maps["memory"].weights.shape)
    assert lines[5] == f"Map(memory: weights {shape} of steps, heads, queries, keys)"


def test_decoder_labels_of_keys_are_shifted():
    model = small_models.build("universal_transformer")
    seen = observer.observe(model, FEATURES, ENCODERS)
    own, memory = seen.maps["decoder"], seen.maps["memory"]
    assert own.queries == memory.queries == ["d", "e", "<EOS>"]
    assert own.keys == ["<start>", "d", "e"]
    assert memory.keys == ["a", "b", "c", "<EOS>"]
    assert own.weights[:, :, 0, 1:].max() == 0  # The decoder does not attend to later tokens.
    assert seen.ponder == {}


def test_observe_generates_missing_targets():
    model = small_models.build("universal_transformer")
    written = model.generate({"inputs": np.array([WORDS])}).ids.numpy()[0, 0]
    seen = observer.observe(model, {"inputs": FEATURES["inputs"]}, ENCODERS)
    if 1 in written:
        written = written[: list(written).index(1) + 1]
    words = ENCODERS["targets"].decode([i for i in written if i]).split()
    assert seen.maps["decoder"].queries == words and words


def test_observe_rejects_prepended_inputs():
    changes = "prepend_mode=prepend_inputs_masked_attention"
    model = small_models.build("transformer", changes, set_name="transformer_tiny")
    with pytest.raises(UsageError, match="prepend_mode must be none.* Received: .*inputs"):
        observer.observe(model, FEATURES, ENCODERS)


def test_observe_story_labels_sentences():
    model = small_models.story_model()
    seen = observer.observe(model, small_models.story(), ENCODERS)
    assert seen.is_story
    found = seen.maps["encoder"]
    assert found.keys == found.queries == ["a b .", "c d .", "a e ?"]  # no empty sentence
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, rtol=1e-5)
    assert seen.ponder["encoder"].times.shape == (3,)
    logits = model({**small_models.story(), "targets": np.zeros([1, 1])}, training=False)
    assert seen.outputs == ENCODERS["targets"].decode([int(np.argmax(logits))])
    assert seen.inputs == "a b . | c d . | a e ?"


def test_observe_class_of_model_with_decoder():
    model = small_models.story_model("universal_transformer", "num_rec_steps=2")
    seen = observer.observe(model, small_models.story(), ENCODERS)
    assert seen.maps["memory"].weights.shape == (2, 2, 1, 3)
    assert seen.maps["memory"].queries == ["prediction"]


def test_observe_global_halting_repeats_ponder_time():
    model = small_models.build("universal_transformer", small_models.ADAPTIVE + ",act_type=global")
    times = observer.observe(model, FEATURES, ENCODERS).ponder["encoder"].times
    assert times.shape == (4,) and len(set(times)) == 1


def test_observe_without_attention():
    model = small_models.build("universal_transformer", small_models.ADAPTIVE)
    whole = observer.observe(model, FEATURES, ENCODERS)
    seen = observer.observe(model, FEATURES, ENCODERS, attention=False)
    assert whole.maps and not seen.maps and seen.outputs == whole.outputs
    for stack, (labels, times) in whole.ponder.items():
        assert seen.ponder[stack].labels == labels
        np.testing.assert_allclose(seen.ponder[stack].times, times, rtol=1e-6)


def test_observe_language_model_continues_prompt():
    specs = {"targets": FeatureSpec(small_models.ENCODER.vocab_size)}
    model = small_models.build("universal_transformer", specs=specs)
    prompt = small_models.ids("a b")
    seen = observer.observe(model, {"inputs": [prompt]}, ENCODERS)
    assert list(seen.maps) == ["decoder"]
    assert seen.maps["decoder"].queries[:2] == ["a", "b"] and seen.inputs == ""


def _depth_positions(model):
    found = observer.observe(model, FEATURES, ENCODERS).maps["encoder"]
    assert len(found.depth_positions) == len(found.weights)
    return [tuple(position) for position in found.depth_positions]


def test_places_is_the_deprecated_name_of_depth_positions():
    model = small_models.build("transformer", set_name="transformer_tiny")
    found = observer.observe(model, FEATURES, ENCODERS).maps["encoder"]
    with pytest.warns(DeprecationWarning, match="depth_positions"):
        assert found.places == found.depth_positions


def test_observe_names_depth_positions():
    layered = small_models.build("transformer", "num_hidden_layers=3", set_name="transformer_tiny")
    assert _depth_positions(layered) == [("1", 1), ("1", 2), ("1", 3)]
    recurrent = small_models.build(
        "universal_transformer", "num_rec_steps=2,num_inrecurrence_layers=2"
    )
    assert _depth_positions(recurrent) == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]
    mixed = small_models.build(
        "universal_transformer",
        "num_rec_steps=2,num_mixedin_layers=2,mix_with_transformer='before_ut,after_ut'",
    )
    recurrence = [("1", 1), ("2", 1)]
    before, after = ([(place, 1), (place, 2)] for place in ("before", "after"))
    assert _depth_positions(mixed) == [*before, *recurrence, *after]


def test_observe_lstm():
    model = small_models.build(
        "lstm_seq2seq_attention", "attention_layer_size=16", set_name="lstm_attention"
    )
    seen = observer.observe(model, FEATURES, ENCODERS)
    assert list(seen.maps) == ["memory"]
    assert seen.maps["memory"].weights.shape == (1, 2, 3, 4)


def test_observe_selects_example_of_batch():
    model = small_models.build("universal_transformer")
    batch = {name: [[2, 1], *rows[:1]] for name, rows in FEATURES.items()}
    batch = {name: [row + [0] * (6 - len(row)) for row in rows] for name, rows in batch.items()}
    seen = observer.observe(model, batch, ENCODERS, example=1)
    alone = observer.observe(model, FEATURES, ENCODERS)
    np.testing.assert_array_equal(seen.maps["memory"].weights, alone.maps["memory"].weights)
    with pytest.raises(ValueError, match=r"example must be in \[0, 2\). Received: 2"):
        observer.observe(model, batch, ENCODERS, example=2)


@pytest.mark.parametrize(
    ("word", "received"), [(2**32 + 5, f"{2**32 + 5}"), (-1, "-1"), (99, "99"), (2.7, "float64")]
)
def test_observe_rejects_ids(word, received):
    """A cast to int32 would change the first and the last of these ids to valid ids."""
    model = small_models.build("universal_transformer")
    with pytest.raises(ValueError, match=f"inputs must .*Received: {received}"):
        observer.observe(model, {**FEATURES, "inputs": [[word, 1]]}, ENCODERS)


def test_observe_without_encoders_labels_with_ids():
    model = small_models.build("universal_transformer")
    assert observer.observe(model, FEATURES).maps["encoder"].keys == ["2", "3", "4", "<EOS>"]


def test_token_labels_of_words_and_reserved_ids():
    encoder = text_encoder.TokenTextEncoder(tokens=["a", "b"])
    assert observer.token_labels(encoder, [2, 3, 1, 0]) == ["a", "b", "<EOS>", "<pad>"]
    assert observer.token_labels(None, [7, 1]) == ["7", "<EOS>"]


def test_token_labels_of_subwords_show_word_ends():
    encoder = text_encoder.SubwordTextEncoder(
        subtokens=["<pad>", "<EOS>", "Hund_", "Hund", "e_", *"\\_u0123456789;"]
    )
    assert observer.token_labels(encoder, encoder.encode("Hund Hunde")) == ["Hund_", "Hund", "e_"]
    assert observer.token_labels(encoder, [999]) == ["ID_999"]
    assert observer.text_label(encoder, [2, 3, 4, 1, 0]) == "Hund Hunde"


def test_token_labels_of_partial_characters_are_hexadecimal():
    encoder = text_encoder.ByteTextEncoder()
    assert observer.token_labels(encoder, encoder.encode("é a")) == ["0xc3", "0xa9", "<space>", "a"]


def test_printable_escapes_control_characters():
    assert observer.printable("a\nb\u202e\x00<i>é") == "a\\u000ab\\u202e\\u0000<i>é"
