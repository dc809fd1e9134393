"""Documents that are added, renamed, re-indexed and deleted, and what must be there after a fault."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradio_client import Client, handle_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bench.harness.app_process import AppProcess

MAX_DOCUMENTS = 12
NUM_PASSAGES = 8  # of all documents; the code is in one of them
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY |= {"num_key_value_heads": 2, "head_dim": 8}
UNUSED = ("--lora-adapter", "--span-scorer", "--token-selector")  # they belong to the bundled model
WORDS = "harbour mill quarry chapel orchard bridge depot lighthouse market station archive granary".split()


class Refused(Exception):
    """An operation failed although the application was running."""


@dataclass
class KnownDocuments:
    """What the application has acknowledged, and the operation that has no answer yet."""

    codes: dict[str, str] = field(default_factory=dict)  # code in the text, by document name
    pending: dict[str, str] | None = None  # the documents if the running operation succeeds
    num_acknowledged: int = 0

    def states(self) -> list[dict[str, str]]:
        """Return the states in which the application may be found."""
        return [self.codes] if self.pending is None else [self.codes, self.pending]


def tiny_model_flags(folder: Path) -> list[str]:
    """Return the flags to run with the model in a folder."""
    flags = ["--model", str(folder), "--auxiliary-model", str(folder), "--no-sample-docs"]
    return flags + [word for flag in UNUSED for word in (flag, "off")]


def save_tiny_model(model: Path, folder: Path) -> None:
    """Write a random model of the same architecture and vocabulary."""
    config = AutoConfig.from_pretrained(model, **TINY)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def compare_documents(app: AppProcess, client: Client, library: KnownDocuments, rng: random.Random) -> tuple[int, int]:
    """Return how many documents are lost and how many are wrong, and continue with those that are there."""
    ids = {document["name"]: document["id"] for document in client.predict(api_name="/list_documents")}
    names = ids.keys()
    expected = next((state for state in library.states() if state.keys() == names), None)
    lost = wrong = 0
    if expected is None:
        allowed = {name for state in library.states() for name in state}
        required = set.intersection(*(set(state) for state in library.states()))
        lost, wrong = len(required - names), len(names - allowed)
        print(f"documents {sorted(names)}, expected one of {[sorted(state) for state in library.states()]}")
        known = {name: code for state in library.states() for name, code in state.items()}
        expected = {name: known.get(name, "") for name in names}
    library.codes, library.pending = expected, None
    for name, code in rng.sample(sorted(expected.items()), min(2, len(expected))):
        sources = app.ask(f"What has the code {code}?", passages=NUM_PASSAGES)["sources"]
        if name not in {source["document"] for source in sources}:
            wrong += 1
            print(f"the code {code} of {name} was found in {sources}")
    return lost, wrong


def change_documents(client: Client, library: KnownDocuments, folder: Path, rng: random.Random) -> None:
    """Add, rename, re-index or delete a document. Raises Refused, and what the client raises."""
    ids = {document["name"]: document["id"] for document in client.predict(api_name="/list_documents")}
    name = rng.choice(sorted(ids)) if ids else ""
    action = rng.choice(["add", "add", "add", "rename", "reindex", "delete"]) if name else "add"
    after = dict(library.codes)
    if action == "add" and len(ids) < MAX_DOCUMENTS:
        code = f"{rng.randrange(10**7):07d}"
        path = folder / f"{code}.txt"
        path.write_text(f"The {rng.choice(WORDS)} has the code {code}. " + " ".join(rng.choices(WORDS, k=900)))
        after[path.name] = code
        arguments: tuple[Any, ...] = (handle_file(path), "/add_document")
    elif action == "rename":
        new_name = f"{rng.choice(WORDS)}-{rng.randrange(10**6)}.txt"
        after[new_name] = after.pop(name)
        arguments = (ids[name], new_name, "/rename_document")
    elif action == "reindex":
        arguments = (ids[name], "/reindex_document")
    else:
        del after[name]
        arguments = (ids[name], "/delete_document")
    library.pending = after
    *values, endpoint = arguments
    answer = client.predict(*values, api_name=endpoint)
    if isinstance(answer, list) and answer[0]["stage"] == "failed":
        raise Refused(answer[0]["message"])
    library.codes, library.pending = after, None
    library.num_acknowledged += 1
