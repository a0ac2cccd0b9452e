"""Basic layers: dense layers, embeddings, normalization, dropout, and helpers."""
