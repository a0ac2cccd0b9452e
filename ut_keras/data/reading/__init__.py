"""From TFRecord files to batches, in an order that a stopped run can resume."""
