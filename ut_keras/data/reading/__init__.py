"""Reads TFRecord files as batches, in an order that a stopped run can resume."""
