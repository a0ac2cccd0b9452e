"""Data on disk: `writing` makes TFRecord files, `reading` makes batches from them."""
