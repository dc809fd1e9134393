"""Each preset's architecture is supported: its config.json with small sizes passes the checks that loading makes."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from engine.model.decoder import Decoder
from engine.model.loading.decoding import PROMPT_TOKENS, SPEED_STEPS, measure_decode_speed
from engine.model.loading.load import load_decoder
from engine.model.loading.presets import PRESETS
from tests.support import tiny


def llama(hidden_size, heads, kv_heads, layers, intermediate_size, **more):
    return LlamaConfig(
        vocab_size=49152,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        num_hidden_layers=layers,
        intermediate_size=intermediate_size,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", **more},
    )


def qwen3(hidden_size, intermediate_size):
    return Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden_size,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        num_hidden_layers=28,
        intermediate_size=intermediate_size,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        use_sliding_window=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )


# From the models' config.json files.
CONFIGS = {
    "SmolLM2-135M-Instruct": llama(576, 9, 3, 30, 1536, rope_theta=1e5),
    "HuggingFaceTB/SmolLM2-360M-Instruct": llama(960, 15, 5, 32, 2560, rope_theta=1e5),
    "Qwen/Qwen3-0.6B": qwen3(1024, 3072),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": llama(2048, 32, 32, 24, 8192, rope_theta=1.3e5),
    "Qwen/Qwen3-1.7B": qwen3(2048, 6144),
}
SMALL = dict(vocab_size=512, num_hidden_layers=3, layer_types=None, intermediate_size=48, max_position_embeddings=2048)


def build(config):
    return (LlamaForCausalLM if config.model_type == "llama" else Qwen3ForCausalLM)(config)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_number_of_parameters_is_the_architectures(preset):
    with torch.device("meta"):
        model = build(CONFIGS[preset.name])
    assert sum(weight.numel() for weight in model.parameters()) == preset.num_parameters


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_small_model_of_a_presets_architecture_loads_and_passes_its_self_test(preset, tmp_path):
    config = CONFIGS[preset.name].to_dict()
    heads = config["num_attention_heads"]
    widening = config["head_dim"] * heads // config["hidden_size"]  # 2 for Qwen3-0.6B: its heads are wider together
    config = type(CONFIGS[preset.name]).from_dict(
        {**config, **SMALL, "hidden_size": 8 * heads, "head_dim": 8 * widening}
    )
    model = tiny.model(lambda: build(config))
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    decoder = load_decoder(tmp_path, torch.device("cpu"), torch.float32)
    assert 0 < decoder.selftest_result.deviation < 1e-4
    assert decoder.model.lm_head.weight is decoder.model.model.embed_tokens.weight
    assert decoder.spec.num_parameters == sum(weight.numel() for weight in model.parameters())


def clock(monkeypatch, durations_s):
    """Let the n-th timed step take the n-th duration."""
    ticks = iter([edge for duration in durations_s for edge in (0.0, duration)])
    monkeypatch.setattr("engine.model.loading.decoding.time", SimpleNamespace(perf_counter=lambda: next(ticks)))


@pytest.mark.parametrize(
    "durations_s, speed",
    [
        ([5.0, 0.1, 0.25, 0.1], 10.0),  # out of time after the fewest steps
        ([0.09, *[0.01] * 5, *[0.005] * 2, 0.05], 200.0),  # all steps
        ([0.001, *[0.06] * 4], 1 / 0.06),
    ],
)
def test_the_decode_speed_is_that_of_the_fastest_step_after_a_warm_up(monkeypatch, durations_s, speed):
    decoder, steps = tiny.decoder(), []
    forward = Decoder.forward

    def record(decoder, ids, positions, *arguments):
        steps.append(positions[0].tolist())
        return forward(decoder, ids, positions, *arguments)

    monkeypatch.setattr(Decoder, "forward", record)
    clock(monkeypatch, durations_s)
    assert measure_decode_speed(decoder) == pytest.approx(speed)
    assert steps[1:] == [[PROMPT_TOKENS + step] for step in range(len(durations_s))]
    assert len(steps[1:]) <= SPEED_STEPS + 1
