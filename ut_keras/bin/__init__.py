"""The commands, such as ut-trainer and ut-decoder."""
