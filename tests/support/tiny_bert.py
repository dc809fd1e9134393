"""Tiny encoders with random weights, sharp enough that what they compute differs between texts."""

import torch
from transformers import BertConfig


def seeded_config(vocab_size, positions, **more):
    """Return the configuration of an encoder 16 wide; models that are built next have the same weights every time."""
    torch.manual_seed(0)
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        initializer_range=0.5,
        **more,
    )
