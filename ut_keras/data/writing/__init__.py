"""From raw files to shuffled TFRecord files of any size."""
