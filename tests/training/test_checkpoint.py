"""Configurations are stored under the keys of earlier versions, so that reports and checkpoints stay comparable."""

import json

import pytest

from engine.builder import LORA_ADAPTER, SPAN_SCORER, TOKEN_SELECTOR
from training.checkpoint import STORED_KEYS, to_json
from training.data.examples import DataMix
from training.loop import TrainingConfig
from training.publish import REPORT_FILE
from training.reader import ReaderConfig
from training.selector import SelectorConfig
from training.span_scorer import SpanScorerConfig


def keys(stored):
    return {key: keys(value) if isinstance(value, dict) else None for key, value in stored.items()}


@pytest.mark.parametrize(
    ("folder", "config"),
    [(LORA_ADAPTER, ReaderConfig()), (TOKEN_SELECTOR, SelectorConfig()), (SPAN_SCORER, SpanScorerConfig())],
    ids=["reader", "selector", "span scorer"],
)
def test_the_keys_are_those_of_the_published_reports(folder, config):
    published = json.loads((folder / REPORT_FILE).read_text())["config"]
    assert keys(to_json(config)) == keys(published)


def test_values_are_stored_unchanged():
    stored = {"lessons": 5, "rate": 0.5, "warmup": 40, "every": 50, "clip": 1.0}
    assert to_json(TrainingConfig(steps=5, learning_rate=0.5)) == stored
    assert set(stored) <= set(STORED_KEYS.values())


def test_a_field_that_was_added_later_is_stored_only_if_it_is_used():
    assert "split_fraction" not in to_json(DataMix())
    assert to_json(DataMix(split_fraction=0.25))["split_fraction"] == 0.25
