"""Chunk KV on disk: safetensors blobs and their index."""
