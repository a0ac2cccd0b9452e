"""Problems for the tests of ut-decoder, for problem types without a small dataset."""

from ut_keras import problems
from ut_keras.data.features import FeatureSpec
from ut_keras.problems import packed, problem
from ut_keras.text import text_encoder

WORDS = ("no", "yes", "maybe", "a", "b", "c", "d", ".")


@problem.register("decoder_test_classes")
class Classes(problem.Problem):
    """A problem that maps words to one of three labels."""

    class_label_features = ("targets",)

    def feature_encoders(self, data_dir):
        return {
            "inputs": text_encoder.TokenTextEncoder(tokens=WORDS),
            "targets": text_encoder.ClassLabelEncoder(labels=WORDS[:3]),
        }


@problem.register("decoder_test_language_model")
class LanguageModel(problem.Problem):
    """A problem of language modeling, with bytes as tokens."""

    def feature_encoders(self, data_dir):
        return {"targets": text_encoder.ByteTextEncoder()}


@problem.register("decoder_test_stories")
class Stories(Classes):
    """A problem whose inputs are lists of sentences, which a line of text cannot express."""

    def feature_specs(self, data_dir):
        specs = super().feature_specs(data_dir)
        size = specs["inputs"].vocab_size
        return {**specs, "inputs": FeatureSpec(size, "sentences", (3, 4))}


@problem.register("decoder_test_decimal")
class Decimal(problem.Problem):
    """A problem that reverses binary numbers but has the vocabulary of decimal numbers."""

    def feature_encoders(self, data_dir):
        return problems.get("algorithmic_reverse_decimal40").feature_encoders(data_dir)


@problem.register("decoder_test_digits")
class Digits(problem.Problem):
    """A problem that reverses the two digits of a number."""

    num_train_shards = 1

    def feature_encoders(self, data_dir):
        encoder = text_encoder.IntegerTextEncoder(12)
        return {"inputs": encoder, "targets": encoder}

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for number in range(10, 30):
            digits = " ".join(str(number))
            yield {"inputs": digits, "targets": digits[::-1]}


@problem.register("decoder_test_digits_packed")
class DigitsPacked(packed.Packed, Digits):
    packed_length = 16
