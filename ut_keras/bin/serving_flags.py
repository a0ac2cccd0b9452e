"""The flags of ut-exporter and ut-query-server: T2T's, and what ours add. No TensorFlow."""

from ut_keras.bin import flags
from ut_keras.bin.command_line import Flag

_CLOUD = "Google's Cloud ML Engine, which it is for, exists no more"
_SHARED = {flag.name: flag for flag in flags.DECODER_OWN}
_TEXT = "Without effect: the model that is served reads and writes text itself."

# t2t-exporter takes all flags of t2t-trainer besides its own.
EXPORTER_OWN = (
    *(
        _SHARED[name]
        for name in (
            *("problem", "model", "hparams_set", "hparams"),
            *("output_dir", "checkpoint_path", "t2t_usr_dir", "registry_help"),
        )
    ),
    Flag("data_dir", None, "Folder with the vocabulary, if the run's has none.", str),
    Flag("export_dir", None, "Folder to export to. Default: export in --output_dir.", str),
    Flag("decode_hparams", "", 'How to decode: "beam_size=4,alpha=0.6,extra_length=100,…".'),
    Flag("format", "saved_model", "saved_model; or litert: a .tflite for small devices."),
    Flag("export_quantize", "", "float16 or int8: store the weights in so many bits."),
    Flag("export_as_tfhub", False, refused="TF Hub modules are SavedModels now"),
    Flag("as_text", True, refused="TensorFlow 2 writes saved_model.pb only"),
)
EXPORTER = (
    *EXPORTER_OWN,
    *(flag for flag in flags.DECODER if flag.name not in {own.name for own in EXPORTER_OWN}),
)

QUERY_SERVER = (
    Flag("server", None, "host:port of the REST API of a server, such as localhost:8501.", str),
    Flag("servable_name", None, "Name of the model that is served.", str),
    Flag("inputs_once", None, "Ask this once. Without it, every line that is typed.", str),
    Flag("timeout_secs", 10, "Seconds that an answer may take."),
    Flag("problem", None, _TEXT, str),
    Flag("data_dir", None, _TEXT, str),
    Flag("t2t_usr_dir", None, _TEXT, str),
    Flag("cloud_mlengine_model_name", None, type=str, refused=_CLOUD),
    Flag("cloud_mlengine_model_version", None, type=str, refused=_CLOUD),
    # A small server to try an export with.
    Flag("serve_dir", None, "Serve this export, or the newest in this folder, yourself.", str),
    Flag("host", "127.0.0.1", "With --serve_dir: address to listen on; only this machine's own."),
    Flag("port", 8501, "With --serve_dir: port to listen on."),
    Flag("max_request_bytes", 65536, "With --serve_dir: size of a request."),
    Flag("max_text_bytes", 2048, "With --serve_dir: size of a text; together 8 times as much."),
    Flag("max_texts", 64, "With --serve_dir: texts of a request."),
    Flag(
        "max_positions",
        32768,
        "With --serve_dir: texts x beams x the longest that a text and its answer may be.",
    ),
)
