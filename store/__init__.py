"""The store keeps documents, vectors and cached keys and values. It knows nothing of models."""
