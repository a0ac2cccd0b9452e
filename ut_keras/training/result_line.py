"""Results as one line of text."""

from collections.abc import Mapping

_FIRST = ("accuracy_per_sequence", "accuracy")


def result_line(results: Mapping[str, float]) -> str:
    """Results as `decode/accuracy=0.97 accuracy=0.99 loss=0.05 …`, named as in metrics.jsonl.

    Args:
        results: dict from name to number. What stands behind `decode/` comes first: it is of free
            decoding, the rest of reading the true symbols. Of other names with a slash, and of
            parts of `decode/…`, none are shown.
    """
    decoded = [name for name in results if name.startswith("decode/") and name.count("/") == 1]
    rest = [name for name in results if "/" not in name]
    first = [f"decode/{name}" for name in _FIRST] + [*decoded, *_FIRST]
    names = dict.fromkeys(name for name in (*first, *rest) if name in results)
    return " ".join(f"{name}={_number(name, results[name])}" for name in names)


def _number(name, value):
    if name == "train_time":
        return f"{value:.0f}s"
    if name == "decode/num_samples":
        return f"{value:.0f}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
