"""An empty raw file gives a one-line error that names the file, and no output is written."""

import os
import re

import pytest

from ut_keras import problems
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import babi_files, raw_text

# For every module in problems/ that reads raw files, this list has one problem for each way to read
# files.
NAMES = [
    "algorithmic_math_deepmind_all",
    "algorithmic_math_two_variables",
    "lambada_lm",
    "languagemodel_de_en_fr_ro_wiki64k",
    "languagemodel_lm1b32k",
    "languagemodel_ptb10k",
    "languagemodel_wikitext2",
    "languagemodel_wikitext103",
    "msr_paraphrase_corpus",
    "paraphrase_generation_ms_coco_problem1d",
    "program_search_algolisp",
    "rte",
    "sentiment_imdb",
    "sentiment_yelp_full",
    "squad_text2text",
    "summarize_cnn_dailymail32k",
    "sva_language_modeling",
    "sva_number_prediction_edinburgh_nlu",
    "sva_number_prediction_gulordava",
    "sva_number_prediction_linzen_testset",
    "text2class_tsv",
    "text2self_txt",
    "text2text_tmpdir",
    "text2text_tmpdir_tokens",
    "text2text_tsv",
    "translate_encs_wmt32k",
    "translate_ende_multi30k",
    "translate_ende_wmt32k",
    "wsj_parsing",
]
OWN_FILES = [f"{name}.{end}" for name in ("train", "dev") for end in ("tsv", "txt")]
OWN_FILES += [f"{side}.{part}.txt" for side in ("inputs", "targets") for part in ("train", "eval")]
BABI = "babi_qa_sentence_single_task1_1k"


@pytest.fixture(params=[b"", b"\n \n\n"], ids=["no bytes", "blank lines"])
def raw(monkeypatch, request, tmp_path):
    """Return a folder in which every raw file exists, but has no bytes or only blank lines."""

    def make(folder, name):
        path = os.path.join(folder, name.replace("**/", "").replace("*", "x"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(request.param)
        return path

    def find_all(folder, archive, *patterns):
        return [make(folder, (*patterns, archive.name)[0])]

    monkeypatch.setattr(download, "fetch", lambda folder, file: make(folder, file.name))
    monkeypatch.setattr(raw_text, "find_all", find_all)
    monkeypatch.setattr(raw_text, "find_local", find_all)
    for name in (*OWN_FILES, "vocab.txt"):
        make(tmp_path / "raw", name)
    for mode in ("train", "test"):
        name = f"qa1_{babi_files.TASKS[1]}_{mode}.txt"
        make(tmp_path / "raw" / "tasks_1-20_v1-2" / "en", name)
    return str(tmp_path / "raw")


@pytest.mark.parametrize("name", NAMES)
def test_generate_data_names_empty_file(name, raw, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    # The problem requires the vocabulary of another problem.
    if name.startswith("sva_number_prediction_"):
        (data / "vocab.sva_number_prediction.tokens").write_text("<pad>\n<EOS>\nword\n")
    before = os.listdir(data)
    with pytest.raises(DataError, match=rf"{re.escape(raw)}/[^ ]*\w") as error:
        problems.get(name).generate_data(str(data), raw)
    assert "\n" not in str(error.value)
    assert os.listdir(data) == before


def test_generate_data_names_empty_babi_file(raw, tmp_path):
    """For bAbI, a file with only blank lines is also invalid."""
    with pytest.raises(DataError, match="tasks_1-20_v1-2/en/qa1_.*_train.txt") as error:
        problems.get(BABI).generate_data(str(tmp_path / "data"), raw)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "data").glob("*"))


def test_generate_data_names_babi_file_without_questions(tmp_path):
    folder = tmp_path / "tasks_1-20_v1-2" / "en"
    folder.mkdir(parents=True)
    (folder / f"qa1_{babi_files.TASKS[1]}_train.txt").write_text("1 Mary moved.\n")
    (folder / f"qa1_{babi_files.TASKS[1]}_test.txt").write_text("1 Mary moved.\n2 Who?\tMary\t1\n")
    with pytest.raises(DataError, match="qa1_.*_train.txt .* questions. Received: none"):
        problems.get(BABI).generate_data(str(tmp_path / "data"), str(tmp_path))
    assert not list((tmp_path / "data").glob("*"))


@pytest.mark.parametrize("content", ["{}", '{"data": []}', '{"data": 7}'])
def test_generate_data_names_json_file_without_its_list(tmp_path, monkeypatch, content):
    path = tmp_path / "train.json"
    path.write_text(content)
    monkeypatch.setattr(download, "fetch", lambda folder, file: str(path))
    with pytest.raises(DataError, match=f"{path} must .*'data'.* Received: "):
        problems.get("squad_text2text").generate_data(str(tmp_path / "data"), str(tmp_path))
    assert not list((tmp_path / "data").glob("*"))


def test_generate_data_rejects_table_of_a_header_alone(tmp_path):
    (tmp_path / "RTE").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "RTE" / f"{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    with pytest.raises(DataError, match=f"rte .*train split. Received: none in .*{tmp_path}"):
        problems.get("rte").generate_data(str(tmp_path / "data"), str(tmp_path))
    assert not list((tmp_path / "data").glob("*"))
