"""Presets: instruct models under permissive licences whose architecture is supported, from small to large."""

from dataclasses import dataclass

BUNDLED_MODEL = "SmolLM2-135M-Instruct"
BUNDLED_DOWNLOAD_BYTES = 93_000_000  # approximately


@dataclass(frozen=True, slots=True)
class Preset:
    """A model that the Settings page offers."""

    name: str  # the bundled model, or a name on the Hugging Face Hub
    num_parameters: int  # as `ModelSpec` counts them: what decoding one token reads
    download_bytes: int  # approximately
    purpose: str  # one sentence
    licence: str = "Apache-2.0"


# Qwen3's files hold the token embeddings twice, so their download is larger than two bytes per parameter.
PRESETS = (
    Preset(
        BUNDLED_MODEL,
        134_515_008,
        BUNDLED_DOWNLOAD_BYTES,
        "Comes with KVScope, with an adapter for short answers in the words of your documents.",
    ),
    Preset(
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        361_821_120,
        727_000_000,
        "Small and quick: short explanations in its own words, in English.",
    ),
    Preset(
        "Qwen/Qwen3-0.6B",
        596_049_920,
        1_519_000_000,
        "A good balance of speed and answers, in many languages.",
    ),
    Preset(
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        1_711_376_384,
        3_426_000_000,
        "Longer answers in English, but slower.",
    ),
    Preset(
        "Qwen/Qwen3-1.7B",
        1_720_574_976,
        4_079_000_000,
        "For difficult questions, in many languages; the largest preset.",
    ),
)


def copy_instructions(name: str) -> str:
    """Return how to bring a model from the Hub to a machine without internet; the command is between backticks."""
    folder = name.rpartition("/")[2]
    command = f'hf download {name} --exclude "onnx/*" --local-dir {folder}'
    return (
        f"On a machine with internet, run `{command}`, copy the folder {folder} to this machine, "
        "and enter its path as the main model."
    )
