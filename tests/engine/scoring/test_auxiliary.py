"""The auxiliary's batched scores against transformers' own attention weights, chunk by chunk."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache

from engine.kv.assemble import layout
from engine.kv.chunk_cache import ChunkCache
from engine.prompt.template import Prompt
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.types import ScoreMode
from tests.support import tiny
from tests.support.doubles import TEXTS, tiers
from tests.support.reference_prefill import assembled
from tests.support.tolerance import EXACT, REORDERED

QUESTION = "What does a ticket cost?"


def auxiliary(build, words=400):
    decoder = tiny.decoder(build, words=words)
    prompt = Prompt(decoder.tokenizer)
    return AuxiliaryScorer(ChunkCache(decoder, prompt.prefix, tiers().tree), prompt)


@torch.no_grad()
def attention_of(build, prefix, chunk, question):
    """Last layer, mean over heads and question tokens, by a plain forward pass over one chunk."""
    plain = tiny.model(build)
    plain.set_attn_implementation("eager")
    weights = plain(torch.tensor([[*prefix, *chunk, *question]]), output_attentions=True).attentions[-1][0]
    return weights[:, -len(question) :].mean(dim=(0, 1))[len(prefix) : len(prefix) + len(chunk)]


def test_scores_are_the_last_layers_mean_attention_with_the_prefix_left_out(family):
    scorer = auxiliary(family)
    passages = [scorer.prompt.passage(text).ids for text in TEXTS.values()]  # of different lengths: padding is at work
    question = scorer.prompt.asked(QUESTION)
    found = scorer.attention(question, [scorer.cache.get(ids)[0] for ids in passages])
    for scores, ids in zip(found, passages, strict=True):
        assert_close(scores, attention_of(family, scorer.prompt.prefix, ids, question), **REORDERED)


@torch.no_grad()
def watched_by_transformers(plain, prefix, passages, question):
    """Each layer's attention weights [1, heads, question, T] over the assembled chunks, and where the chunks end."""
    ids, cache = torch.tensor([*prefix, *(token for passage in passages for token in passage)]), DynamicCache()
    spans = layout(len(prefix), [len(passage) for passage in passages])
    for number, (keys, values) in enumerate(assembled(plain, ids, len(prefix), spans)):
        cache.update(keys, values, number)
    plain.set_attn_implementation("eager")
    return plain(torch.tensor([question]), past_key_values=cache, output_attentions=True).attentions, len(ids)


def test_joined_scores_are_every_layers_attention_over_the_assembled_chunks(family):
    scorer, plain = auxiliary(family), tiny.model(family)
    passages = [scorer.prompt.passage(text).ids for text in TEXTS.values()]
    prefix, question = scorer.prompt.prefix, scorer.prompt.question(QUESTION)
    found = scorer.joined(question, [scorer.cache.get(ids)[0] for ids in passages])
    layers, end = watched_by_transformers(plain, prefix, passages, question)
    expected = torch.zeros(end - len(prefix))
    for layer in layers:
        paid = layer[0].mean(dim=(0, 1))[len(prefix) : end]
        expected += paid / paid.sum()
    assert_close(torch.cat(found), expected, **REORDERED)
    assert [len(scores) for scores in found] == [len(passage) for passage in passages]


def test_a_selector_scores_in_the_auxiliarys_place_and_needs_none_of_its_kv(monkeypatch):
    selector, primary, texts = (
        TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32)),
        Prompt(tiny.tokenizer(300)),
        list(TEXTS.values()),
    )
    scorer = replace(auxiliary(tiny.llama), selector=selector)
    monkeypatch.setattr(scorer.cache, "get", lambda *args: pytest.fail("chunk KV was read"))
    found = scorer.score(QUESTION, texts, primary, ScoreMode.LEARNED)
    assert_close(found, selector.score(QUESTION, texts, [primary.passage(text) for text in texts]), **EXACT)
    assert not scorer.reads_kv(ScoreMode.LEARNED) and scorer.reads_kv(ScoreMode.JOINT)


def test_without_a_selector_scores_are_the_joined_ones():
    scorer = auxiliary(tiny.llama)
    asked = [QUESTION, list(TEXTS.values()), scorer.prompt]
    assert_close(scorer.score(*asked, ScoreMode.LEARNED), scorer.score(*asked, ScoreMode.JOINT), **EXACT)


@pytest.mark.parametrize("scoring", ScoreMode)
@pytest.mark.parametrize("words", [400, 300])
def test_scores_come_one_for_each_token_of_the_primary(words, scoring):
    scorer, primary = auxiliary(tiny.llama, words), Prompt(tiny.tokenizer(400))
    scores = scorer.score(QUESTION, list(TEXTS.values()), primary, scoring)
    assert len(scores) == sum(len(primary.passage(text).ids) for text in TEXTS.values())
    assert (scores >= 0).all() and scores.sum() > 0


def test_scoring_one_chunk_alone_or_among_others_is_the_same():
    scorer = auxiliary(tiny.llama)
    question = scorer.prompt.asked(QUESTION)
    chunks = [scorer.cache.get(scorer.prompt.passage(text).ids)[0] for text in TEXTS.values()]
    alone, among = scorer.attention(question, chunks[:1])[0], scorer.attention(question, chunks)[0]
    assert_close(alone, among, **REORDERED)
