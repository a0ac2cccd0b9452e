"""The process and its surroundings: signals, memory, waiting, its line on the screen."""
