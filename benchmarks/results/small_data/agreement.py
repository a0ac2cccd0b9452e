"""Subject-verb agreement with 5,000 sentences for training and validation.

The training sentences come from a course at Edinburgh (wiki-dev.txt, wiki-test.txt). The test
sentences have a known number of attractors (subj_agr_filtered.text). Both are parts of the table of
Linzen et al. 2016. Sentences that are in both parts are not used for training or validation.
"""

import collections

from ut_keras.data.writing import download
from ut_keras.problems import agreement_files, problem, subject_verb_agreement, text_problems

_VALIDATE_EVERY = 10  # every tenth sentence is in the dev split
_TEST = "subj_agr_filtered"


@problem.register("small_sva_language_modeling")
class AgreementPart(subject_verb_agreement.LanguageModeling):
    """A language model problem of the words up to and including the verb."""

    vocab_name = "small_sva_language_modeling"
    raw_files = tuple(
        agreement_files.OTHER_FILES[name]
        for name in ("wiki-dev.txt", "wiki-test.txt", f"{_TEST}.text", f"{_TEST}.gold")
    )

    def words(self, tmp_dir):
        """Return the words of the train and dev splits, and the other form of each verb."""
        counts = collections.Counter()
        for example in _edinburgh(tmp_dir):
            counts.update([*example.words, example.verb, example.wrong_verb])
        return text_problems.by_frequency(counts)

    @staticmethod
    def read_examples(tmp_dir, split):
        """Yield the `Example`s of a split."""
        if split == "test":
            yield from agreement_files.read_linzen_testset(tmp_dir, split)
            return
        for number, example in enumerate(_edinburgh(tmp_dir)):
            if (number % _VALIDATE_EVERY == 0) == (split == "dev"):
                yield example


def _edinburgh(tmp_dir):
    """Yield the Edinburgh `Example`s whose sentences are not in the test split."""
    tested = collections.defaultdict(list)
    for line in _lines(tmp_dir, f"{_TEST}.text"):
        words = line.removesuffix("<eos>").split()
        tested[len(words)].append(words)
    for split in ("dev", "test"):
        lines = _lines(tmp_dir, f"wiki-{split}.txt")[1:]
        examples = agreement_files.read_edinburgh_nlu(tmp_dir, split)
        for line, example in zip(lines, examples, strict=True):
            words = line.split("\t")[0].split()
            if not any(is_same(words, other) for other in tested[len(words)]):
                yield example


def is_same(words, others):
    """Return whether two sentences of equal length are the same sentence.

    In the first sentence, each rare word was replaced by its part of speech in capitals. A part of
    speech matches any word.
    """
    pairs = zip(words, others, strict=True)
    return all(word.isupper() or word.lower() == other.lower() for word, other in pairs)


def _lines(tmp_dir, name):
    path = download.fetch(tmp_dir, agreement_files.OTHER_FILES[name])
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()
