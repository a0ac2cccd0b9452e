"""From text to batches: encoders, TFRecord files, the input pipeline."""
