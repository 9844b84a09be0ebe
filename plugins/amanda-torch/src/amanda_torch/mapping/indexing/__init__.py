"""Indexing, gather and scatter, masks, embeddings."""
