import pytest

from ut_keras.data.reading import packing

# PACKED_PAIRS is the result of this call in T2T 1.15.7, where `examples` is PAIRS:
# generator_utils.pack_examples(examples, True, packed_length=8, spacing=0, queue_size=2)
PAIRS = [
    {"inputs": [8, 7, 1], "targets": [4, 1]},
    {"inputs": [2, 3, 4, 1], "targets": [5, 6, 1]},
    {"inputs": [9, 1], "targets": [9, 9, 9, 9, 9, 1]},
    {"inputs": [3, 3, 3, 3, 3, 3, 3, 3, 3, 1], "targets": [7, 1]},
    {"inputs": [5, 1], "targets": [6, 1]},
    {"inputs": [2, 1], "targets": [3, 1]},
]
PACKED_PAIRS = [
    {
        "inputs": [8, 7, 1, 2, 3, 4, 1],
        "inputs_segmentation": [1, 1, 1, 2, 2, 2, 2],
        "inputs_position": [0, 1, 2, 0, 1, 2, 3],
        "targets": [4, 1, 5, 6, 1],
        "targets_segmentation": [1, 1, 2, 2, 2],
        "targets_position": [0, 1, 0, 1, 2],
    },
    {
        "inputs": [9, 1, 5, 1],
        "inputs_segmentation": [1, 1, 2, 2],
        "inputs_position": [0, 1, 0, 1],
        "targets": [9, 9, 9, 9, 9, 1, 6, 1],
        "targets_segmentation": [1, 1, 1, 1, 1, 1, 2, 2],
        "targets_position": [0, 1, 2, 3, 4, 5, 0, 1],
    },
    {
        "inputs": [3, 3, 3, 3, 3, 3, 3, 3, 3, 1],
        "inputs_segmentation": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        "inputs_position": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        "targets": [7, 1],
        "targets_segmentation": [1, 1],
        "targets_position": [0, 1],
    },
    {
        "inputs": [2, 1],
        "inputs_segmentation": [1, 1],
        "inputs_position": [0, 1],
        "targets": [3, 1],
        "targets_segmentation": [1, 1],
        "targets_position": [0, 1],
    },
]
# PACKED_SINGLE is the result of this call in T2T 1.15.7, where `examples` has the ids of SINGLE:
# pack_examples(examples, False, packed_length=4, spacing=0, chop_long_sequences=True)
SINGLE = [
    [2, 3, 1],
    [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1],
    [14, 1],
    [2, 2, 2, 2, 2, 2, 2, 1],
    [15, 16, 17, 18, 1],
    [19, 1],
]
PACKED_SINGLE = [  # each entry is (targets, segmentation, position)
    ([4, 5, 6, 7], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([8, 9, 10, 11], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([2, 2, 2, 2], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([2, 2, 2, 1], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([15, 16, 17, 18], [1, 1, 1, 1], [0, 1, 2, 3]),
    ([2, 3, 1, 1], [1, 1, 1, 2], [0, 1, 2, 0]),
    ([12, 13, 1], [1, 1, 1], [0, 1, 2]),
    ([14, 1, 19, 1], [1, 1, 2, 2], [0, 1, 0, 1]),
]


def test_pack_of_pairs_matches_t2t():
    assert list(packing.pack(PAIRS, packed_length=8, open_rows=2)) == PACKED_PAIRS


def test_pack_of_targets_matches_t2t():
    examples = [{"targets": ids} for ids in SINGLE]
    assert list(packing.pack(examples, packed_length=4)) == [
        {
            "inputs": [0],
            "targets": ids,
            "targets_segmentation": segmentation,
            "targets_position": position,
        }
        for ids, segmentation, position in PACKED_SINGLE
    ]


def test_pack_makes_no_empty_row_after_exact_cut():
    rows = list(packing.pack([{"targets": [2, 3, 4, 1]}, {"targets": [5, 6, 7, 8]}], 2))
    assert [row["targets"] for row in rows] == [[2, 3], [4, 1], [5, 6], [7, 8]]


def test_pack_does_not_change_examples():
    examples = [{"inputs": [2, 1], "targets": [3, 1]} for _ in range(3)]
    (row,) = packing.pack(examples, 8)
    assert row["inputs"] == [2, 1, 2, 1, 2, 1]
    assert examples == [{"inputs": [2, 1], "targets": [3, 1]}] * 3


@pytest.mark.parametrize("names", [("inputs", "targets"), ("targets",)])
def test_unpack_inverts_pack(names):
    import tensorflow as tf

    examples = [{name: example[name] for name in names} for example in PAIRS]
    found = []
    for row in packing.pack(examples, packed_length=12):
        if names == ("targets",):
            del row["inputs"]
        # The row gets padding, as in a batch with a longer row.
        padded = {name: tf.pad(tf.constant(ids), [[0, 3]]) for name, ids in row.items()}
        for example in packing.unpack(padded).as_numpy_iterator():
            found.append({name: ids.tolist() for name, ids in example.items()})
    key = str
    assert sorted(found, key=key) == sorted(examples, key=key)


def test_spacing_of_older_versions_separates_examples():
    """T2T 1.3 to 1.6 writes two zeros between the examples of a row."""
    import numpy as np

    from ut_keras import hparams, models

    row = {"inputs": [8, 7, 1, 0, 0, 2, 3, 4, 1], "targets": [4, 1, 0, 0, 5, 6, 1]}
    row |= {"inputs_segmentation": [1, 1, 1, 0, 0, 2, 2, 2, 2]}
    row |= {"inputs_position": [0, 1, 2, 0, 0, 0, 1, 2, 3]}
    row |= {"targets_segmentation": [1, 1, 0, 0, 2, 2, 2]}
    row |= {"targets_position": [0, 1, 0, 0, 0, 1, 2]}
    hp = hparams.get("transformer_tiny", "hidden_size=8,filter_size=8,num_heads=2")
    model = models.get("transformer", hp, vocab_sizes={"inputs": 10, "targets": 10})
    logits = model({name: np.array([ids]) for name, ids in row.items()}, training=False)[0]
    segments = np.array(row["targets_segmentation"])
    unpacked = list(packing.unpack(row))
    assert len(unpacked) == 2
    for number, example in enumerate(unpacked, start=1):
        assert {name: ids.numpy().tolist() for name, ids in example.items()} == PAIRS[number - 1]
        alone = model({name: ids[None] for name, ids in example.items()}, training=False)[0]
        np.testing.assert_allclose(logits[segments == number], alone, atol=1e-5)
