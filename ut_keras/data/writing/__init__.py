"""Download raw files and write shuffled TFRecord files of any size."""
