"""The first layers of a decoder as a decoder of its own: for scoring, which needs no others."""

import copy
from pathlib import Path

from engine.model.adapter import merged
from engine.model.decoder import Decoder


def first_layers(decoder: Decoder, count: int, adapter: Path | None = None) -> Decoder:
    """Return a decoder of copies of the first `count` layers, with `adapter` merged into them.

    Embeddings and vocabulary head are the whole decoder's own. Raises ModelNotFound or UnsupportedModel for an adapter
    that cannot be read or does not fit.
    """
    body = decoder.model.model
    shared = [body.embed_tokens, decoder.model.lm_head, *body.layers[count:]]
    model = copy.deepcopy(decoder.model, {id(module): module for module in shared})
    model.model.layers = model.model.layers[:count]
    model.config.num_hidden_layers = count
    if adapter is not None:
        model = merged(model, adapter)
    return Decoder(model.eval(), decoder.tokenizer, f"{decoder.name}, {count} layers")
