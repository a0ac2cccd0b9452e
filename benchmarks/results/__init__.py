"""The tables of papers: their cells and runs, the result lines, and the generated pages."""
