"""Layers of the Transformer and the Universal Transformer, one concept a file.

They take explicit arguments and never see hparams. Shapes: B batch, S input_length,
T target_length, H num_heads, D hidden_size, F filter_size, V vocab_size, N recurrence steps.
"""
