"""Stand-in for data_generators.generator_utils: vocabularies, downloads, examples.

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
from ut_keras.t2t import missing, text_encoder, text_files
from ut_keras.text.text_encoder import store_new

UNSHUFFLED_SUFFIX = "-unshuffled"
_VOCAB_BUDGET = 1e6  # characters of each file that are read to build a vocabulary
_MOST_UNPACKED = 200 * 10**9  # largest unpacked size of an archive, in bytes


# File names.


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
    """Return the first existing file of the shuffled files, or None."""
    return next((name for name in map(_final, filenames) if os.path.exists(name)), None)


def _final(path):
    """Return the path without "-unshuffled" in the file name."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.replace(UNSHUFFLED_SUFFIX, ""))


# Example files.


def generate_files(
    generator: Iterable[dict[str, Any] | None],
    output_filenames: list[str],
    max_cases: int | None = None,
    cycle_every_n: int = 1,
) -> None:
    """Write examples to the files in turn, unless one of the files exists.

    Raises:
        DataError: if an example is not a dict of lists of ints.
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
    """Shuffle each file and remove "-unshuffled" from its name."""
    if extra_fn is not None:
        raise DataError(
            "extra_fn must be None; packed_length packs examples. Received: a function."
        )
    if outputs_exist(filenames):  # as in T2T, files without the suffix are not shuffled
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
    """Pack several examples into one, without spacing, as in T2T's problems."""
    del has_inputs, chop_long_sequences  # the function determines both from the examples
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
    """Read a subword vocabulary file; build and write the vocabulary if it is missing."""
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
    """Yield evenly spaced lines, about `file_byte_budget` characters of each file.

    Args:
        tmp_dir: str. Folder of the raw files.
        sources: list of [URL or name in tmp_dir, names of the files in that archive].
        file_byte_budget: float. The approximate number of characters to read from each file.
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


# Raw data files.


def maybe_download(directory: str, filename: str, uri: str) -> str:
    """Return the path of a file in a folder.

    The function downloads or copies the file if it is missing.
    """
    path = os.path.join(directory, filename)
    if os.path.exists(path):
        return path
    local = uri.removeprefix("file://")
    if os.path.exists(local):
        os.makedirs(directory, exist_ok=True)
        whole_file.copy(local, path)
        return path
    is_address = uri.startswith("http")
    raw_file = download.RawFile(filename, uri if is_address else "", may_be_html=True)
    return download.fetch(directory, raw_file)


def maybe_download_from_drive(directory: str, filename: str, url: str) -> str:
    return maybe_download(directory, filename, url)


def gunzip_file(gz_path: str, new_path: str) -> None:
    """Unpack a gzip file, unless the unpacked file exists.

    If the gzip file is newer than the unpacked file, a note says that it is not read.
    """
    if os.path.exists(new_path):
        if os.path.exists(gz_path) and os.path.getmtime(gz_path) > os.path.getmtime(new_path):
            missing.print_once(
                f"note: as in T2T, the existing file {new_path} is read, although {gz_path} is "
                f"newer. If they differ, remove {new_path}."
            )
        return
    with gzip.open(gz_path, "rb") as source, whole_file.writing(new_path, binary=True) as target:
        file_error.copy(source, gz_path, target)


def archived(tmp_dir: str, url: str, name: str) -> str:
    """Return the path of a raw file, which may have to be unpacked from an archive.

    Args:
        tmp_dir: str. Folder of the raw files.
        url: str. The archive or file: a URL, a path, or a name in tmp_dir. If tmp_dir does not
            contain it, it is downloaded from the URL or copied from the path.
        name: str. Name of the file in the archive or in tmp_dir.

    Raises:
        DataError: if neither the archive nor tmp_dir contains the file.
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
    """Return the folder of an unpacked archive.

    Unlike in T2T, the folder is never incomplete.
    """
    return unpacking.unpack(path, f"{path}.unpacked", ("*",), _MOST_UNPACKED)
