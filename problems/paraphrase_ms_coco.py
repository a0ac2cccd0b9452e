"""Captions of the same picture as paraphrases (MS COCO 2014).

The problems have T2T's names.

    inputs   "A bicycle replica with a clock as the front wheel."       ids of subwords, EOS
    targets  "The bike has a clock as a tire."                          ids, EOS

Each pair of captions of a picture is one example with the earlier caption as inputs (problems
`1d`), or two examples, one for each direction (problems `2d`).

train 82,783 pictures          dev 40,504 pictures

References: Lin et al. 2014.
"""

import collections
import itertools

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts


class ParaphraseGenerationMsCoco(raw_text.FromArchive, text_problems.Text2TextProblem):
    """Captions as paraphrases of each other."""

    archive = download.at(
        "http://images.cocodataset.org/annotations/annotations_trainval2014.zip",
        "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
        licence="CC BY",
        members=("annotations/captions_*.json",),
        most_bytes=5 * 10**9,
    )
    # The second name is T2T's. T2T unpacks another archive, which is no longer available, into a
    # folder with the name of the archive.
    members = (
        "annotations/captions_{}2014.json",
        "captions_train-val2014/annotations/captions_{}2014.json",
    )
    parts = {"train": "train", "dev": "val"}
    num_train_shards = 10
    approx_vocab_size = 2**13
    both_ways = False

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        captions = collections.defaultdict(list)
        for annotation in raw_text.read_json_list(self.path(split, tmp_dir), "annotations"):
            captions[annotation["image_id"]].append(annotation["caption"])
        for of_picture in captions.values():
            for first, second in itertools.combinations(of_picture, 2):
                yield {"inputs": first, "targets": second}
                if self.both_ways:
                    yield {"inputs": second, "targets": first}


for _ways in (1, 2):
    _name = f"paraphrase_generation_ms_coco_problem{_ways}d"
    _made = problem.declare(_name, ParaphraseGenerationMsCoco, both_ways=_ways == 2)
    problem.declare(f"{_name}_characters", _made, vocab_type="characters")
