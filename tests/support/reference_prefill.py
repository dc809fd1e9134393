"""Chunk KV and its assembly with transformers alone: the slow, independent reference."""

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


@torch.no_grad()
def kv_layers(model, ids):
    """Each layer's cache after a plain forward pass over `ids`."""
    return model(torch.tensor([ids]), use_cache=True).past_key_values.layers


@torch.no_grad()
def rotate_keys(model, keys, shift):
    """Keys [H, T, D] rotated by transformers, without its YaRN factor, which the keys already contain."""
    cos, sin = model.model.rotary_emb(keys, torch.tensor([[shift]]))
    factor = (cos.square() + sin.square()).sqrt()
    return apply_rotary_pos_emb(keys[None], keys[None], cos / factor, sin / factor)[1][0]


def assemble_kv(model, ids, prefix_tokens, spans):
    """Keys and values [1, H, T, D] of each layer: each chunk computed after the prefix alone, keys re-rotated."""
    layers = [(layer.keys.clone(), layer.values.clone()) for layer in kv_layers(model, ids.tolist())]
    for span in spans:
        slots = slice(span.start, span.stop)
        chunk_layers = kv_layers(model, [*ids[:prefix_tokens].tolist(), *ids[slots].tolist()])
        for (keys, values), chunk in zip(layers, chunk_layers, strict=True):
            keys[0, :, slots] = rotate_keys(model, chunk.keys[0, :, prefix_tokens:], span.start - prefix_tokens)
            values[0, :, slots] = chunk.values[0, :, prefix_tokens:]
    return layers
