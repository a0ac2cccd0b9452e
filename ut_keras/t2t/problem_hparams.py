"""T2T's data_generators.problem_hparams: what a problem says about its features."""

from ut_keras.t2t import hparam


def default() -> hparam.HParams:
    """The values that `Problem.hparams` changes."""
    return hparam.HParams(
        loss_multiplier=1.0,
        batch_size_multiplier=1,
        stop_at_eos=0,
        modality={},
        vocab_size={},
        # T2T's older problems give (kind, vocabulary size) here.
        input_modality={},
        target_modality=None,
        input_space_id=0,
        target_space_id=0,
        tasks=[],
    )
