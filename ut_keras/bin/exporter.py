r"""ut-exporter: export a trained model, for example as a SavedModel for text.

    ut-exporter --output_dir=run --data_dir=data --export_dir=served
    ut-exporter --output_dir=run --data_dir=data --export_dir=served \
      --decode_hparams="beam_size=4,alpha=0.6,extra_length=50,max_input_size=256"

These commands write EXPORT_DIR/TIME, the layout of TensorFlow Serving; see docs/serving.md.

    ut-exporter --output_dir=run --export_dir=phone --format=litert --export_quantize=int8 \
      --decode_hparams="beam_size=1,extra_length=10,max_input_size=32"

This command writes EXPORT_DIR/TIME with model.tflite and the vocabularies; see docs/on_device.md.
With --format=onnx, the command writes model.onnx instead, with greedy search.

With --format=safetensors, the command writes a folder for `ut_keras.load` and for other programs
that read safetensors. With --format=ctranslate2, it writes a `transformer` model for CTranslate2.
"""

import os
import pathlib
import re
import sys
import time
from collections.abc import Sequence

from ut_keras.bin import command, decoder_setup, flags
from ut_keras.errors import UsageError
from ut_keras.files import file_error, new_folder, path_lock, whole_file
from ut_keras.hparam_schema import overrides
from ut_keras.inference import decode_hparams, feature_record
from ut_keras.process import extras, live_line

# The formats whose inputs have a fixed length, each with the name of the model's file.
_MODEL_FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
# The formats that require an extra, each with the packages of the extra.
_PACKAGES = {"ctranslate2": ("ctranslate2",), "onnx": ("tf2onnx", "onnxruntime")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-exporter and return the exit code."""
    return command.run_with_flags(_main, flags.EXPORTER, "ut-exporter", __doc__, argv)


def _main(args: command.Args) -> None:
    if args.export_quantize and args.format in ("saved_model", "safetensors", "onnx"):
        raise UsageError(
            "--export_quantize requires --format=litert or ctranslate2. "
            f"Received: --format={args.format}."
        )
    if args.xla_compile and args.format != "saved_model":
        raise UsageError(
            f"--xla_compile requires --format=saved_model. Received: --format={args.format}."
        )
    if args.format in _PACKAGES:
        extras.require(f"--format={args.format}", args.format, *_PACKAGES[args.format])
    run = decoder_setup.check_run(args)
    decoder_setup.check_xla(args.xla_compile, run.specs)
    search, values = _search_options(args, run)
    if args.format in _MODEL_FILES:
        _check_source_length(args.format, run, values)
    base = args.export_dir or os.path.join(run.run_dir, "export")
    if os.path.lexists(base) and not os.path.isdir(base):
        raise UsageError(f"--export_dir must be a folder. Received: {base!r}, a file.")
    with (
        new_folder.made(base),
        path_lock.held(os.path.join(base, "export"), "--export_dir must be written", base),
    ):
        whole_file.remove_leftovers(os.path.join(base, "*"))
        _export(args, run, search, values, os.path.join(base, str(_export_number(base))))


def _export(args, run, search, values, directory):
    command.load_tensorflow(run.run_dir, args)
    from ut_keras import export

    model, path = run.load_model(values)
    print(f"Weights: {path}", flush=True)
    length = max(0, values["max_input_size"])
    try:
        with (
            file_error.user_error_context(directory),
            live_line.Stopwatch(f"Writing the format {args.format}…", "Wrote the files"),
        ):
            if args.format in _MODEL_FILES:
                _write_fixed(args, run, model, directory, length, search)
            elif args.format == "safetensors":
                from ut_keras.inference import portable

                portable.save(directory, model, run.encoders, run.prefixes)
            elif args.format == "ctranslate2":
                export.export_ctranslate2(model, run.encoders, directory, args.export_quantize)
            else:
                export.export_saved_model(
                    model,
                    run.encoders,
                    directory,
                    max_input_length=length,
                    jit_compile=args.xla_compile,
                    **search,
                )
    except ValueError as error:
        raise UsageError(f"The model cannot be exported: {error}") from error
    files = (path for path in pathlib.Path(directory).rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in files)
    print(f"Wrote {directory} ({size / 1e6:.1f} MB)")
    print(_how_to_load(args.format, directory))
    name = "targets" if run.is_language_model else "inputs"
    if note := decoder_setup.prefix_note(run.problem, name, reader="the exported model"):
        print(f"note: {note}")
    if args.format == "ctranslate2":
        from ut_keras.inference import ctranslate2_export

        print(ctranslate2_export.ADVICE)


def _how_to_load(name, directory):
    """Return the line that says which path a program loads."""
    if name == "saved_model":
        return (
            f'To load it: import tensorflow_text, then tf.saved_model.load("{directory}"). '
            f"TensorFlow Serving reads {os.path.dirname(directory)} and takes its newest folder."
        )
    if name == "safetensors":
        return f'To load it: ut_keras.load("{directory}")'
    if name == "ctranslate2":
        return f'To load it: ctranslate2.Translator("{directory}")'
    return f"The model is {os.path.join(directory, _MODEL_FILES[name])}"


def _check_source_length(name, run, values):
    """Raise `UsageError` if max_input_size is required but not set.

    A model whose inputs have a variable length requires max_input_size.
    """
    is_needed = "inputs" in run.specs and run.specs["inputs"].modality == "symbol"
    if is_needed and values["max_input_size"] < 1:
        raise UsageError(
            f"--format={name} requires the decode hparam max_input_size: the fixed length of the "
            f"inputs, including EOS. Received: {values['max_input_size']}."
        )


def _check_greedy(run, values):
    """Raise `UsageError` if an ONNX file does not support the search."""
    if run.is_language_model:
        raise UsageError(
            "--format=onnx requires a model with inputs. Received: a language model. Use "
            "--format=litert or saved_model."
        )
    for name, greedy in (("beam_size", 1), ("sampling_temp", 0)):
        if values[name] != greedy:
            default = ", the default" if values[name] == decode_hparams.SEARCH[name].default else ""
            raise UsageError(
                f"--format=onnx supports only greedy search: --decode_hparams={name}={greedy}. "
                f"Received: {values[name]}{default}."
            )


def _write_fixed(args, run, model, directory, length, search):
    """Write a folder that contains a model of fixed length and the vocabularies.

    Args:
        args: the flags, whose format is a key of `_MODEL_FILES`.
        run: the run of the model.
        model: the model.
        directory: str, the folder.
        length: int, the length of the inputs, or 0 if the model determines the length.
        search: dict, the search options.
    """
    from ut_keras import export

    with whole_file.writing_folder(directory) as written:
        space = model.target_space_id
        record = feature_record.FeatureRecord(run.specs, run.encoders, space, run.prefixes)
        feature_record.save(written, record)
        path = os.path.join(written, _MODEL_FILES[args.format])
        if args.format == "litert":
            export.export_litert(
                model, path, length or None, quantize=args.export_quantize, **search
            )
        else:
            export.export_onnx(model, path, length or None, **search)


def _search_options(args, run):
    """Return (the search options, all decode hparams)."""
    length = {"max_input_size": decode_hparams.DECODER["max_input_size"]}
    is_litert_language_model = args.format == "litert" and run.is_language_model
    allowed = ["num_steps", "extra_length"] if is_litert_language_model else ["num_steps"]
    others = overrides.parse(args.decode_hparams).keys() - set(allowed)
    if others and (is_litert_language_model or args.format in ("safetensors", "ctranslate2")):
        whose = " of a language model" if is_litert_language_model else ""
        raise UsageError(
            f"--format={args.format}{whose} exports no search; --decode_hparams can only set "
            f"{' and '.join(allowed)}. Received: {', '.join(sorted(others))}."
        )
    values = decode_hparams.parse(args.decode_hparams, {**decode_hparams.SEARCH, **length})
    if values["max_input_size"] > 0 and "inputs" in run.specs and run.specs["inputs"].shape:
        raise UsageError(
            "The decode hparam max_input_size is not supported for stories: their size is fixed "
            f"by the training. Received: {values['max_input_size']}."
        )
    if run.class_labels:  # as in T2T, a classifier does not need a search
        values["beam_size"] = 1
    if args.format == "onnx":
        _check_greedy(run, values)
    decode_hparams.check_fits(values, run.specs["targets"].vocab_size)
    search = decode_hparams.search_options(values)
    if is_litert_language_model:
        search = {"decode_length": search["decode_length"]}
    return search, values


def _export_number(base):
    """Return the number of the export: the time, or a larger number if needed.

    TensorFlow Serving uses the folder with the highest number. So the new number is always larger
    than the number of every existing folder.
    """
    names = (re.fullmatch(r"\.?([0-9]+)(\.ut_keras-.*)?", name) for name in os.listdir(base))
    highest = max((int(name[1]) for name in names if name), default=0)
    return max(int(time.time()), highest + 1)


if __name__ == "__main__":
    sys.exit(main())
