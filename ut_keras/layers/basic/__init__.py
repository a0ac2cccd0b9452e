"""What every other room builds on: dense layers, tables, norms."""
