"""Write archives in the formats that problems download, with only a few lines of text."""

import io
import tarfile
import zipfile

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.text import text_encoder


def write(path, members):
    """Write a zip, or a tar with or without compression.

    Args:
        path: pathlib path.
        members: dict from name to str or bytes.
    """
    members = {
        name: content if isinstance(content, bytes) else content.encode()
        for name, content in members.items()
    }
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def generate(name, tmp_path):
    """Generate the data of a problem in tmp_path/data. Return the problem and its counts."""
    problem = problems.get(name)
    problem.num_train_shards = 1
    return problem, problem.generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1)


def texts(problem, tmp_path, split):
    """Return the samples in the files of a split, as a sorted list of tuples of texts."""
    data_dir = str(tmp_path / "data")
    encoders = problem.feature_encoders(data_dir)
    records = [
        record
        for path in tfrecords.find(data_dir, problem.filename, split)
        for record in tfrecords.read(path)
    ]
    return sorted(
        tuple(
            encoder.decode(
                record[name]
                if name in problem.class_label_features
                else text_encoder.cut_at_eos(record[name])
            )
            for name, encoder in encoders.items()
        )
        for record in records
    )
