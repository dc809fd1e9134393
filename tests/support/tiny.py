"""Tiny models with random weights and tiny tokenizers: offline, seeded, built in milliseconds."""

import re
import string
from collections import Counter
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engine.model.decoder import Decoder
from engine.model.encoder import Encoder

CORPUS = Path(__file__).parent / "data" / "tokenizer_corpus.txt"  # any change of it changes every tokenizer
SIZE = dict(
    vocab_size=512,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
)
HEAD = dict(head_dim=8)
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 512}
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def llama():
    return LlamaForCausalLM(LlamaConfig(**SIZE, **HEAD))


def qwen2():
    return Qwen2ForCausalLM(Qwen2Config(**SIZE))


def qwen3():
    return Qwen3ForCausalLM(Qwen3Config(**SIZE, **HEAD))


def mistral():
    return MistralForCausalLM(MistralConfig(**SIZE, **HEAD, sliding_window=None))


def yarn():
    return LlamaForCausalLM(LlamaConfig(**SIZE, **HEAD, rope_parameters=YARN))


def model(build=llama, seed=0, scale=8.0):
    """A random model with attention so sharp that a wrong mask or position shows in the logits."""
    torch.manual_seed(seed)
    model = build().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "proj" in name and weight.ndim == 2:
                weight.mul_(scale)
    return model


def tokenizer(vocab_size=400):
    """A byte-level BPE tokenizer of about `words` tokens, trained on `CORPUS`."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([CORPUS.read_text()], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", chat_template=CHAT)


def decoder(build=llama, seed=0, vocab_size=400):
    return Decoder(model(build, seed), tokenizer(vocab_size), f"tiny {build.__name__}")


def bert(layers=2):
    torch.manual_seed(1)
    size = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=layers, vocab_size=300)
    network = BertModel(BertConfig(**size)).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(4.0 if weight.ndim == 2 else 1.0)
    return network


@cache
def wordpiece_tokenizer(vocab_size=300):
    """A WordPiece tokenizer like BERT's, of single characters and the most frequent words of `CORPUS`."""
    text = CORPUS.read_text().lower()
    characters = sorted({*string.ascii_lowercase, *string.digits, *string.punctuation, *text} - set(string.whitespace))
    words = [word for word, _ in Counter(re.findall(r"\w\w+", text)).most_common()]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *characters, *(f"##{each}" for each in characters), *words]
    ids = {token: number for number, token in enumerate(vocabulary[:vocab_size])}
    wordpiece = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    wordpiece.normalizer, wordpiece.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    return wordpiece


def encoder(*layers):
    return Encoder(bert(), wordpiece_tokenizer(), layers or (2,))
