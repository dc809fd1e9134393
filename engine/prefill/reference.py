"""Passes that record what the question's rows attend to, over assembled chunks or in a full prefill."""

from dataclasses import dataclass
from threading import Event

import torch
from torch import Tensor

from engine.model.decoder import Decoder
from engine.model.kv_buffer import AttentionProbe, KVBuffer
from engine.prompt.template import MAX_QUERY_ROWS


@dataclass(frozen=True, slots=True)
class ReferencePrefill:
    """The result of a full prefill with recorded attention.

    buffer     KV of the whole prompt
    logits     [V] of the first token
    attention  [L, context tokens] fp32, of the last 256 question rows at most; mean over heads and rows
    """

    buffer: KVBuffer
    logits: Tensor
    attention: Tensor


def reference_prefill(
    decoder: Decoder, ids: Tensor, context: slice, buffer: KVBuffer, cancel: Event | None = None
) -> ReferencePrefill:
    """Run a full prefill of `ids` [T] into an empty buffer; arguments as for `probe_question`."""
    attention, logits = probe_question(decoder, ids, torch.arange(len(ids)), context, buffer, cancel)
    return ReferencePrefill(buffer, logits, attention)


def probe_question(
    decoder: Decoder, ids: Tensor, rows: Tensor, context: slice, buffer: KVBuffer, cancel: Event | None = None
) -> tuple[Tensor, Tensor]:
    """Compute KV for `rows` [R] and return the question's attention [L, context tokens] and the logits [V].

    ids      [T] of the prompt
    rows     ascending slots, the question's among them
    context  slots of all chunks; the question's rows follow

    Raises Cancelled once `cancel` is set.
    """
    num_query_tokens = min(len(ids) - context.stop, MAX_QUERY_ROWS)  # of a pasted text, its end
    probe = AttentionProbe(buffer, rows, num_query_tokens)
    hidden = decoder.forward(ids[rows][None], rows[None], probe, cancel)
    return probe.attention[:, :, context].mean(1), decoder.logits(hidden[0, -1])
