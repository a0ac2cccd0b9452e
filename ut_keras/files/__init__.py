"""What is written whole or not at all, and whose it is."""
