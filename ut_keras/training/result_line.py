"""Results as one line of text."""


def result_line(results):
    """Results as `accuracy_per_sequence=0.97 accuracy=0.99 loss=0.05 …`; free decoding first.

    Args:
        results: dict from name to number. Of names with a slash, only `decode/…` are shown.
    """
    decoded = {
        name.removeprefix("decode/"): value
        for name, value in results.items()
        if name.startswith("decode/") and name != "decode/num_samples"
    }
    values = {**results, **decoded}
    first = ("accuracy_per_sequence", "accuracy", *decoded)
    names = dict.fromkeys(name for name in (*first, *values) if name in values and "/" not in name)
    return " ".join(f"{name}={_number(name, values[name])}" for name in names)


def _number(name, value):
    if name == "train_time":
        return f"{value:.0f}s"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
