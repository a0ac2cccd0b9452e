"""SQuAD 1.1: answer a question about a paragraph (Rajpurkar et al. 2016).

    inputs   "squad context: Super Bowl 50 was an American … question: Which NFL team represented …"
    targets  "Denver Broncos"                                       ids of 32k subwords, EOS

train 87,599          dev 10,570

The name is that of T2T. If a question has several answers, the targets are the first one.
"""

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts

_URL = "https://rajpurkar.github.io/SQuAD-explorer/dataset"
_FILES = {
    split: download.at(f"{_URL}/{split}-v1.1.json", sha256, licence="CC BY-SA")
    for split, sha256 in (
        ("train", "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955"),
        ("dev", "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"),
    )
}


@problem.register("squad_text2text")
class SquadText2text(text_problems.Text2TextProblem):
    """Questions about paragraphs with 32k subwords."""

    raw_files = tuple(_FILES.values())

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        articles = raw_text.read_json_list(download.fetch(tmp_dir, _FILES[split]), "data")
        paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
        for paragraph in paragraphs:
            context = paragraph["context"].strip()
            for question in paragraph["qas"]:
                yield {
                    "inputs": f"squad context: {context} question: {question['question'].strip()}",
                    "targets": question["answers"][0]["text"].strip(),
                }
