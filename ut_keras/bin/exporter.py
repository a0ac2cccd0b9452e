"""ut-exporter: a trained model as a SavedModel that takes and gives text.

    ut-exporter --output_dir=run --data_dir=data --export_dir=served
    ut-exporter --output_dir=run --data_dir=data --export_dir=served --export_quantize=float16 \\
      --decode_hparams="beam_size=4,alpha=0.6,extra_length=50,max_input_size=256"

Writes EXPORT_DIR/TIME, as TensorFlow Serving wants it; docs/serving.md goes on from there.

    ut-exporter --output_dir=run --export_dir=phone --format=litert --export_quantize=int8 \\
      --decode_hparams="beam_size=1,extra_length=10,max_input_size=32"

Writes EXPORT_DIR/TIME with model.tflite and the vocabularies; see docs/on_device.md. With
--format=safetensors it is what `ut_keras.load` and whatever reads safetensors take, with
--format=ctranslate2 what CTranslate2 takes of a `transformer`.
"""

import os
import re
import sys
import time

from ut_keras.bin import command, decode_setup, flags
from ut_keras.errors import UsageError
from ut_keras.files import file_error, path_lock, whole_file
from ut_keras.inference import decode_hparams, feature_record

_FORMATS = ("saved_model", "litert", "safetensors", "ctranslate2")
_QUANTIZATIONS = ("", "float16", "int8")
_LARGEST_NUMBER = 2**63 - 1  # that a server reads
# Of ut-decoder's results and files.
_NOT_HERE = (
    *("return_beams", "write_beam_scores", "batch_size", "num_samples", "log_results"),
    "multiproblem_task_id",
)


@command.of(flags.EXPORTER, "ut-exporter", __doc__)
def main(args: command.Args) -> None:
    if args.export_quantize not in _QUANTIZATIONS:
        raise UsageError(
            f"--export_quantize must be float16 or int8. Received: {args.export_quantize!r}."
        )
    if args.format not in _FORMATS:
        raise UsageError(
            f"--format must be one of {', '.join(_FORMATS)}. Received: {args.format!r}."
        )
    if args.format == "safetensors" and args.export_quantize:
        raise UsageError(
            "--format=safetensors is of 32 bits. "
            f"Received: --export_quantize={args.export_quantize}."
        )
    run = decode_setup.check_run(args)
    search, values = _search(args, run)
    if args.format == "litert":
        _check_source_length(run, values)
    base = os.path.expanduser(args.export_dir or os.path.join(run.run_dir, "export"))
    os.makedirs(base, exist_ok=True)
    with path_lock.held(
        os.path.join(base, "export"),
        "--export_dir must be written by one command at a time",
        repr(base),
    ):
        whole_file.remove_leftovers(os.path.join(base, "*"))
        _export(args, run, search, values, os.path.join(base, str(_number(base))))


def _export(args, run, search, values, directory):
    command.load_tensorflow(run.run_dir)
    from ut_keras import export

    model, path = run.load_model(values["num_steps"])
    print(f"Weights: {path}", flush=True)
    length = max(0, values["max_input_size"])
    search = {**search, "quantize": args.export_quantize}
    try:
        with file_error.told_as(directory):
            if args.format == "litert":
                _write_litert(run, model, directory, length or None, search)
            elif args.format == "safetensors":
                from ut_keras.inference import portable

                portable.save(directory, model, run.encoders)
            elif args.format == "ctranslate2":
                export.export_ctranslate2(model, run.encoders, directory, args.export_quantize)
            else:
                export.export_saved_model(
                    model, run.encoders, directory, max_input_length=length, **search
                )
    except ValueError as error:
        raise UsageError(f"The model cannot be exported: {error}") from error
    print(f"Wrote {directory} ({_size(directory) / 1e6:.1f} MB)")


def _check_source_length(run, values):
    """Where there is a source that may be of any length."""
    is_needed = "inputs" in run.specs and run.specs["inputs"].modality == "symbol"
    if is_needed and values["max_input_size"] < 1:
        raise UsageError(
            "--format=litert needs the decode hparam max_input_size: the length of all sources, "
            f"EOS included. Received: {values['max_input_size']}."
        )


def _write_litert(run, model, directory, length, search):
    """A folder with the model and what its texts are encoded by."""
    from ut_keras import export

    with whole_file.folder(directory) as temporary:
        written = os.path.join(temporary, "litert")
        os.makedirs(written)
        record = feature_record.FeatureRecord(run.specs, run.encoders, model.target_space_id)
        feature_record.save(written, record)
        path = os.path.join(written, "model.tflite")
        export.export_litert(model, path, length, **search)
        whole_file.put([(written, directory)])


def _search(args, run):
    """(options of the search, all decode hparams)"""
    fields = {
        name: field for name, field in decode_hparams.DECODER.items() if name not in _NOT_HERE
    }
    values = decode_hparams.parse(args.decode_hparams, fields)
    if run.class_labels:  # as in T2T, nothing to search
        return {"beam_size": 1}, values
    decode_hparams.check_fits(values, run.specs["targets"].vocab_size)
    return decode_hparams.search_options(values), values


def _number(base):
    """The time, or the next number if the folder holds a higher one: a server takes the highest."""
    names = (re.fullmatch(r"\.?([0-9]+)(\.ut_keras-.*)?", name) for name in os.listdir(base))
    highest = max((int(name[1]) for name in names if name), default=0)
    if highest >= _LARGEST_NUMBER:
        raise UsageError(
            f"--export_dir must leave a number for the next export, at most {_LARGEST_NUMBER}. "
            f"Received: {base!r}, which holds {highest}."
        )
    return max(int(time.time()), highest + 1)


def _size(directory):
    """Bytes of all files."""
    return sum(
        os.path.getsize(os.path.join(folder, file))
        for folder, _, files in os.walk(directory)
        for file in files
    )


if __name__ == "__main__":
    sys.exit(main())
