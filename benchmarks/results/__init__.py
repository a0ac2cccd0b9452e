"""Tables of papers: their cells, the runs, the result lines, and the pages made from them."""
