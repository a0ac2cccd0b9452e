import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from tests.visualize import small_models
from ut_keras.training import evaluation_pictures, summaries

BLUE, GREY = [8, 81, 156], [128, 128, 128]


def _dataset(rows, targets, calls=None):
    features = {"inputs": np.array(rows, "int32"), "targets": np.array(targets, "int32")}

    def make():
        if calls is not None:
            calls.append(1)
        batch = (features, features["targets"])
        return tf.data.Dataset.from_tensor_slices(batch).batch(len(rows)).repeat(2)

    return make


def test_images_are_the_attention_of_real_positions():
    model = small_models.build("universal_transformer", small_models.ADAPTIVE)
    rows, targets = [[2, 3, 4, 1], [5, 1, 0, 0], [2, 2, 1, 0]], [[3, 1, 0]] * 3
    pictures = evaluation_pictures.EvaluationPictures(model)(_dataset(rows, targets))
    kinds = ("encoder", "decoder", "memory")
    assert set(pictures.images) == {f"attention/{kind}/{row}" for kind in kinds for row in (0, 1)}
    whole = model.inspect({"inputs": np.array(rows), "targets": np.array(targets)})
    weights = whole.decoder.memory_attention_weights.numpy()[:, 1, :, :2, :2]  # [N, H, T, S]
    image = pictures.images["attention/memory/1"][0]
    cell = 2 * 32 + 2
    assert image.shape == (len(weights) * cell, 2 * cell, 3) and image.dtype == np.uint8
    for step, head, query, key in np.ndindex(*weights.shape):
        pixel = image[step * cell + 32 * query + 16, head * cell + 32 * key + 16]
        expected = 255 - weights[step, head, query, key] * (255 - np.array(BLUE))
        np.testing.assert_allclose(pixel, expected, atol=1)
    assert image[-1, -1].tolist() == GREY
    times, mask = pictures.ponder["encoder"]
    np.testing.assert_array_equal(times, whole.encoder.ponder_times)
    np.testing.assert_array_equal(mask, np.array(rows) != 0)


def test_examples_stay_the_same():
    model = small_models.build("universal_transformer")
    look, calls = evaluation_pictures.EvaluationPictures(model), []
    first = look(_dataset([[2, 1]], [[3, 1]], calls))
    second = look(_dataset([[5, 5, 5, 1]], [[3, 1]], calls))
    assert len(calls) == 1 and first.ponder == {}
    for tag, image in first.images.items():
        np.testing.assert_array_equal(image, second.images[tag])


def test_images_stay_small():
    model = small_models.build("universal_transformer", "num_rec_steps=2")
    pictures = evaluation_pictures.EvaluationPictures(model)(
        _dataset([[2] * 300] * 20, [[3] * 300] * 20)
    )
    assert len(pictures.images) == 3 * evaluation_pictures.DRAWN_EXAMPLES
    for image in pictures.images.values():
        assert image.shape == (1, 2 * 66, 2 * 66, 3)


def test_stories_and_classes():
    model = small_models.story_model("universal_transformer")
    inputs = small_models.story()["inputs"]
    pictures = evaluation_pictures.EvaluationPictures(model)(_dataset(inputs, [[0]]))
    _, height, width, _ = pictures.images["attention/encoder/0"].shape
    assert (height % (3 * 21 + 2), width) == (0, 2 * (3 * 21 + 2))  # the empty row is left out
    _, height, width, _ = pictures.images["attention/memory/0"].shape
    assert (height % (1 * 21 + 2), width) == (0, 2 * (3 * 21 + 2))
    assert pictures.ponder["encoder"][1].tolist() == [[1, 1, 0, 1]]


def test_model_without_attention():
    pictures = evaluation_pictures.EvaluationPictures(toy.ToyModel())(_dataset([[2, 1]], [[2, 1]]))
    assert pictures.images == {}
    assert pictures.ponder["encoder"][0].tolist() == [[2, 2]]


def _events(folder):
    for path in sorted(folder.glob("events.out.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            yield from ((event.step, value.tag, value) for value in event.summary.value)


def test_tensorboard_gets_them(tmp_path):
    image = np.zeros([1, 4, 5, 3], np.uint8)
    ponder = {"encoder": (np.array([[2.0, 3.0, 9.0]]), np.array([[1, 1, 0]]))}
    written = summaries.Summaries(str(tmp_path))
    pictures = evaluation_pictures.Pictures({"attention/encoder/0": image}, ponder)
    written.write_pictures(7, lambda: pictures)
    written.close()
    found = {tag: (step, value) for step, tag, value in _events(tmp_path / "eval")}
    step, value = found["attention/encoder/0"]
    assert step == 7 and value.metadata.plugin_data.plugin_name == "images"
    step, value = found["ponder_times/encoder"]
    buckets = tf.make_ndarray(value.tensor)
    assert step == 7 and buckets[0, 0] == 2 and buckets[-1, 1] == 3 and buckets[:, 2].sum() == 2


def test_training_does_not_end_for_a_picture(tmp_path, capsys):
    def fail():
        raise tf.errors.ResourceExhaustedError(None, None, "out of memory")

    summaries.Summaries(str(tmp_path)).write_pictures(1, fail)
    assert "out of memory" in capsys.readouterr().out
    disabled = summaries.Summaries(str(tmp_path), enabled=False)
    disabled.write_pictures(1, lambda: pytest.fail("looked at for nothing"))
