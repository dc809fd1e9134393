"""Chunk KV and assembly by transformers alone: the slow reference of what the engine lays together."""

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb


@torch.no_grad()
def layers_of(plain, ids):
    return plain(torch.tensor([ids]), use_cache=True).past_key_values.layers


@torch.no_grad()
def moved(plain, keys, shift):
    """Keys [H, T, D] turned by transformers' own rotation, without its YaRN factor: that is in the keys already."""
    cos, sin = plain.model.rotary_emb(keys, torch.tensor([[shift]]))
    size = (cos.square() + sin.square()).sqrt()
    return apply_rotary_pos_emb(keys[None], keys[None], cos / size, sin / size)[1][0]


def assembled(plain, ids, prefix, spans):
    """Keys and values [1, H, T, D] of each layer: every chunk as computed behind the prefix alone, keys moved."""
    layers = [(layer.keys.clone(), layer.values.clone()) for layer in layers_of(plain, ids.tolist())]
    for span in spans:
        place = slice(span.start, span.stop)
        alone = layers_of(plain, [*ids[:prefix].tolist(), *ids[place].tolist()])
        for (keys, values), cached in zip(layers, alone, strict=True):
            keys[0, :, place] = moved(plain, cached.keys[0, :, prefix:], span.start - prefix)
            values[0, :, place] = cached.values[0, :, prefix:]
    return layers
