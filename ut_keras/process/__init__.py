"""The process and its surroundings: signals, waiting, its line on the screen."""
