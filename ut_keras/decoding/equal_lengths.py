"""Which rows may share a batch: the one rule for everything that answers rows of any length."""


def why_needed(model, scores=False):
    """Why the rows of a batch must be of one length.

    Args:
        model: such as a `Transformer`.
        scores: bool. Whether given targets are scored, rather than written or classified; then
            the length is that of source and target.
    Returns:
        str; "" where padding changes no answer.
    """
    if model.decoder is None:
        return "an encoder without decoder answers from all positions, padding too"
    if model.encoder is None and not scores:
        return "a prompt is continued behind its last id"
    reason = "" if model.encoder is None else model.why_source_padding_matters
    return reason or (model.why_target_padding_matters if scores else "")
