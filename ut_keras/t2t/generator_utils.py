"""T2T's data_generators.generator_utils: vocabularies, downloads and files of examples.

References: tensor2tensor/data_generators/generator_utils.py.
"""

import gzip
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ut_keras.data import contract, tfrecords
from ut_keras.data.reading import packing
from ut_keras.data.writing import download, generation
from ut_keras.errors import DataError
from ut_keras.files import file_error, unpacking, whole_file
from ut_keras.problems import parallel_text
from ut_keras.problems.problem import Samples
from ut_keras.t2t import text_encoder, text_files
from ut_keras.text.text_encoder import store_new

UNSHUFFLED_SUFFIX = "-unshuffled"
_VOCAB_BUDGET = 1e6  # characters of each file that a vocabulary is built from
_MOST_UNPACKED = 200 * 10**9  # bytes of an archive


# Names of files.


def train_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    return tfrecords.shard_paths(output_dir, problem, "train", num_shards)


def dev_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    return tfrecords.shard_paths(output_dir, problem, "dev", num_shards)


def test_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    return tfrecords.shard_paths(output_dir, problem, "test", num_shards)


def sharded_name(base_name: str, shard: int, total_shards: int) -> str:
    return f"{base_name}-{shard:05d}-of-{total_shards:05d}"


def shard_filepath(fname: str, num_shards: int) -> list[str]:
    return [sharded_name(fname, shard, num_shards) for shard in range(num_shards)]


def outputs_exist(filenames: list[str]) -> str | None:
    """The first of the files that is there, shuffled; None without one."""
    return next((name for name in map(_final, filenames) if os.path.exists(name)), None)


def _final(path):
    """A path without the suffix in its file's name."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.replace(UNSHUFFLED_SUFFIX, ""))


# Files of examples.


def generate_files(
    generator: Iterable[dict[str, Any] | None],
    output_filenames: list[str],
    max_cases: int | None = None,
    cycle_every_n: int = 1,
) -> None:
    """Writes examples to files, in turn; nothing if there are files.

    Raises:
        DataError: if a case is no dict of lists of ints.
    """
    if outputs_exist(output_filenames):
        print(f"found {outputs_exist(output_filenames)}, nothing to generate", flush=True)
        return
    if cycle_every_n != 1:
        raise DataError(f"cycle_every_n must be 1. Received: {cycle_every_n}.")
    cases = (case for case in generator if case is not None)
    examples = generation.Samples(cases, os.path.basename(output_filenames[0]), max_cases or None)
    tfrecords.write(examples, output_filenames)


def shuffle_dataset(filenames: list[str], extra_fn: Callable | None = None) -> None:
    """Shuffles each file, and gives it its name without "-unshuffled"."""
    if extra_fn is not None:
        raise DataError(
            "extra_fn must be None; packed_length packs examples. Received: a function."
        )
    if outputs_exist(filenames):  # as without the suffix, which T2T does not shuffle
        return
    for name in filenames:
        examples = list(tfrecords.read(name))
        random.shuffle(examples)
        tfrecords.write(examples, [_final(name)])
        os.remove(name)


def generate_dataset_and_shuffle(
    train_gen: Iterable[dict[str, Any] | None],
    train_paths: list[str],
    dev_gen: Iterable[dict[str, Any] | None],
    dev_paths: list[str],
    shuffle: bool = True,
) -> None:
    generate_files(train_gen, train_paths)
    generate_files(dev_gen, dev_paths)
    if shuffle:
        shuffle_dataset([*train_paths, *dev_paths])


def pack_examples(
    examples: Samples,
    has_inputs: bool,
    packed_length: int = 256,
    spacing: int = 2,
    queue_size: int = 10,
    chop_long_sequences: bool = False,
) -> Samples:
    """Several examples in one, as T2T's problems have it, without spacing."""
    del has_inputs, chop_long_sequences  # the examples say it
    if spacing:
        raise DataError(f"spacing must be 0. Received: {spacing}.")
    return packing.pack(examples, packed_length, queue_size)


# Vocabularies.


def get_or_generate_vocab_inner(
    data_dir: str | None,
    vocab_filename: str | None,
    vocab_size: int,
    generator: Iterable[str],
    max_subtoken_length: int | None = None,
    reserved_tokens: Sequence[str] | None = None,
) -> text_encoder.SubwordTextEncoder:
    """The subword vocabulary of a file, which is written if it is not there."""
    path = None
    if data_dir and vocab_filename:
        contract.validated(vocab_filename, contract.RELATIVE_FILE, "vocab_filename")
        path = os.path.join(data_dir, vocab_filename)
        if os.path.exists(path):
            return text_encoder.SubwordTextEncoder(path)
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(
        contract.texts(generator), vocab_size, max_subtoken_length, reserved_tokens
    )
    if path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        store_new(encoder, path)
        return text_encoder.SubwordTextEncoder(path)
    return encoder


def get_or_generate_vocab(
    data_dir: str | None,
    tmp_dir: str,
    vocab_filename: str,
    vocab_size: int,
    sources: list[Any],
    file_byte_budget: float = _VOCAB_BUDGET,
    max_subtoken_length: int | None = None,
) -> text_encoder.SubwordTextEncoder:
    lines = generate_lines_for_vocab(tmp_dir, sources, file_byte_budget)
    return get_or_generate_vocab_inner(
        data_dir, vocab_filename, vocab_size, lines, max_subtoken_length
    )


def generate_lines_for_vocab(
    tmp_dir: str, sources: list[Any], file_byte_budget: float = _VOCAB_BUDGET
) -> Iterator[str]:
    """Yields lines of files, evenly spread, about a budget of each.

    Args:
        sources: list of [URL or name in tmp_dir, names of the files in that archive].
    """
    for url, names, *_ in sources:
        for name in names:
            path = archived(tmp_dir, url, name)
            yield from parallel_text.lines_for_vocab(path, file_byte_budget)


def get_or_generate_tabbed_vocab(
    data_dir: str,
    tmp_dir: str,
    source_filename: str,
    index: int,
    vocab_filename: str,
    vocab_size: int,
) -> text_encoder.SubwordTextEncoder:
    samples = text_files.text2text_txt_tab_iterator(os.path.join(tmp_dir, source_filename))
    texts = (sample[("inputs", "targets")[index]] for sample in samples)
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, texts)


def get_or_generate_txt_vocab(
    data_dir: str, vocab_filename: str, vocab_size: int, filepatterns: str | list[str]
) -> text_encoder.SubwordTextEncoder:
    patterns = [filepatterns] if isinstance(filepatterns, str) else filepatterns
    texts = itertools.chain.from_iterable(map(text_files.txt_line_sharded_iterator, patterns))
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, texts)


# Raw files.


def maybe_download(directory: str, filename: str, uri: str) -> str:
    """The path of a file in a folder; downloads it, or copies it, if it is not there."""
    path = os.path.join(directory, filename)
    if os.path.exists(path):
        return path
    local = uri.removeprefix("file://")
    if os.path.exists(local):
        os.makedirs(directory, exist_ok=True)
        whole_file.copy(local, path)
        return path
    is_address = uri.startswith("http")
    return download.fetch(directory, download.RawFile(filename, uri if is_address else ""))


def maybe_download_from_drive(directory: str, filename: str, url: str) -> str:
    return maybe_download(directory, filename, url)


def gunzip_file(gz_path: str, new_path: str) -> None:
    """Unpacks a file, if the new one is not there."""
    if os.path.exists(new_path):
        return
    with gzip.open(gz_path, "rb") as source, whole_file.writing(new_path, binary=True) as target:
        file_error.copy(source, gz_path, target)


def archived(tmp_dir: str, url: str, name: str) -> str:
    """The path of a file, perhaps of an archive.

    Args:
        url: str. Of the archive or file, which is downloaded if need be; or its path, from which it
            is copied; or its name in tmp_dir.
        name: str. Of the file in the archive, or in tmp_dir.

    Raises:
        DataError: if it is in neither.
    """
    path = os.path.join(tmp_dir, name)
    if not os.path.exists(path):
        raw = maybe_download(tmp_dir, os.path.basename(url), url)
        if not os.path.exists(path):
            path = os.path.join(unpacked(raw), name)
            if not os.path.exists(path):
                raise DataError(
                    f"{os.path.basename(url)} must contain {name}. "
                    f"Received: none in {unpacked(raw)}."
                )
    if path.endswith(".gz"):
        gunzip_file(path, path.removesuffix(".gz"))
    return path.removesuffix(".gz")


def unpacked(path: str) -> str:
    """The folder with what an archive holds; a whole one or none, as it is not in T2T."""
    return unpacking.unpack(path, f"{path}.unpacked", ("*",), _MOST_UNPACKED)
