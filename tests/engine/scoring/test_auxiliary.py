"""The auxiliary model's scores against transformers' own attention weights."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close
from transformers import DynamicCache

from engine.kv.chunk_cache import ChunkCache, chunk_spans
from engine.prompt.template import PromptTemplate
from engine.scoring.auxiliary import AuxiliaryScorer
from engine.scoring.trained_selector import SelectorHead, TokenSelector
from engine.types import ScoreMode
from tests.support import tiny
from tests.support.doubles import TEXTS, make_hierarchy
from tests.support.reference_prefill import assemble_kv
from tests.support.tolerance import EXACT, REORDERED

QUESTION = "What does a ticket cost?"


def auxiliary(build, words=400):
    decoder = tiny.decoder(build, vocab_size=words)
    template = PromptTemplate(decoder.tokenizer)
    return AuxiliaryScorer(ChunkCache(decoder, template.prefix_ids, make_hierarchy().tree), template)


def chunk_kvs(scorer, texts):
    return [scorer.cache.get_or_compute(scorer.template.passage(text).ids)[0] for text in texts]


@torch.no_grad()
def attention_to_chunk(build, prefix, chunk, question):
    """Last layer, mean over heads and question tokens, by a plain forward pass over one chunk."""
    model = tiny.model(build)
    model.set_attn_implementation("eager")
    attention = model(torch.tensor([[*prefix, *chunk, *question]]), output_attentions=True).attentions[-1][0]
    return attention[:, -len(question) :].mean(dim=(0, 1))[len(prefix) : len(prefix) + len(chunk)]


def test_scores_are_the_last_layers_mean_attention_without_the_prefix(family):
    scorer = auxiliary(family)
    prefix, question = scorer.template.prefix_ids, scorer.template.query_ids(QUESTION)
    scores = scorer.score_per_chunk(question, chunk_kvs(scorer, TEXTS.values()))  # of different lengths: padded
    for chunk_scores, text in zip(scores, TEXTS.values(), strict=True):
        ids = scorer.template.passage(text).ids
        assert_close(chunk_scores, attention_to_chunk(family, prefix, ids, question), **REORDERED)


@torch.no_grad()
def joint_attention(model, prefix, passages, question):
    """Each layer's attention weights [1, heads, question, T] over the assembled chunks, and the chunks' end."""
    ids, cache = torch.tensor([*prefix, *(token for passage in passages for token in passage)]), DynamicCache()
    spans = chunk_spans(len(prefix), [len(passage) for passage in passages])
    for number, (keys, values) in enumerate(assemble_kv(model, ids, len(prefix), spans)):
        cache.update(keys, values, number)
    model.set_attn_implementation("eager")
    return model(torch.tensor([question]), past_key_values=cache, output_attentions=True).attentions, len(ids)


def test_joint_scores_are_every_layers_attention_over_the_assembled_chunks(family):
    scorer, model = auxiliary(family), tiny.model(family)
    passages = [scorer.template.passage(text).ids for text in TEXTS.values()]
    prefix, question = scorer.template.prefix_ids, scorer.template.suffix_ids(QUESTION)
    scores = scorer.score_jointly(question, chunk_kvs(scorer, TEXTS.values()))
    layers, end = joint_attention(model, prefix, passages, question)
    expected = torch.zeros(end - len(prefix))
    for layer in layers:
        attention = layer[0].mean(dim=(0, 1))[len(prefix) : end]
        expected += attention / attention.sum()
    assert_close(torch.cat(scores), expected, **REORDERED)
    assert [len(chunk_scores) for chunk_scores in scores] == [len(passage) for passage in passages]


def test_a_selector_replaces_the_auxiliary_model_and_reads_no_chunk_kv(monkeypatch):
    selector = TokenSelector(tiny.encoder(), SelectorHead(32, 8, 32))
    primary, texts = PromptTemplate(tiny.tokenizer(300)), list(TEXTS.values())
    scorer = replace(auxiliary(tiny.llama), selector=selector)
    monkeypatch.setattr(scorer.cache, "get_or_compute", lambda *args: pytest.fail("chunk KV was read"))
    scores = scorer.score(QUESTION, texts, primary, ScoreMode.LEARNED)
    assert_close(scores, selector.score(QUESTION, texts, [primary.passage(text) for text in texts]), **EXACT)


def test_without_a_selector_learned_scores_are_the_joint_ones():
    scorer = auxiliary(tiny.llama)
    arguments = [QUESTION, list(TEXTS.values()), scorer.template]
    learned, joint = (scorer.score(*arguments, mode) for mode in (ScoreMode.LEARNED, ScoreMode.JOINT))
    assert_close(learned, joint, **EXACT)


@pytest.mark.parametrize("mode", ScoreMode)
@pytest.mark.parametrize("words", [400, 300])
def test_every_token_of_the_main_model_gets_a_score(words, mode):
    scorer, primary = auxiliary(tiny.llama, words), PromptTemplate(tiny.tokenizer(400))
    scores = scorer.score(QUESTION, list(TEXTS.values()), primary, mode)
    assert len(scores) == sum(len(primary.passage(text).ids) for text in TEXTS.values())
    assert (scores >= 0).all() and scores.sum() > 0


def test_a_chunks_scores_do_not_depend_on_the_other_chunks():
    scorer = auxiliary(tiny.llama)
    question, chunks = scorer.template.query_ids(QUESTION), chunk_kvs(scorer, TEXTS.values())
    alone, batched = scorer.score_per_chunk(question, chunks[:1])[0], scorer.score_per_chunk(question, chunks)[0]
    assert_close(alone, batched, **REORDERED)
