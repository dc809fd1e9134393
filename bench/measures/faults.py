"""Kill -9 at random moments: what was acknowledged must be there after the restart, and nothing else.

The whole application runs with a temporary data folder and, for many kills in little time, a tiny random model; it is
forked from a process that has imported its modules. A client adds, renames, re-indexes and deletes documents and
asks about them, until the process is killed at a random moment: while it starts, between two operations or within
one. After each restart the documents are compared with what was acknowledged; an operation that was interrupted may
have happened or not. Each document is also searched by a code that only it has.
"""

import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from gradio_client import Client, handle_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bench.arguments import positive_int
from bench.errors import InvalidArgument
from bench.harness.app_process import AppProcess, ForkedAppProcess
from bench.tables import columns_of, progress
from engine.model.loading.resolve import resolve

TITLE = "kill -9 at random moments"
COLUMNS = columns_of("kills acknowledged lost wrong failed_starts")
MAX_DOCUMENTS = 12
START_FRACTION = 0.15  # of kills: while the application starts
START_S = 2.0  # a kill while it starts comes within this time
WORK_S = 4.0  # other kills come within this time after it is ready
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TINY |= {"num_key_value_heads": 2, "head_dim": 8}
UNUSED = ("--lora-adapter", "--span-scorer", "--token-selector")  # they belong to the bundled model
WORDS = "harbour mill quarry chapel orchard bridge depot lighthouse market station archive granary".split()


def add_arguments(parser: ArgumentParser) -> None:
    """Add the number of kills."""
    parser.add_argument("--kills", type=positive_int, default=20, help="how often the application is killed")


class _Refused(Exception):
    """An operation failed although the application was running."""


@dataclass
class _Library:
    """What the application has acknowledged, and the operation that has no answer yet."""

    codes: dict[str, str] = field(default_factory=dict)  # code in the text, by document name
    pending: dict[str, str] | None = None  # the documents if the running operation succeeds
    num_acknowledged: int = 0

    def states(self) -> list[dict[str, str]]:
        """Return the states in which the application may be found."""
        return [self.codes] if self.pending is None else [self.codes, self.pending]


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row; the last three values must be 0."""
    rng = random.Random(arguments.seed)
    models = arguments.data / "models"
    counts = {"lost": 0, "wrong": 0, "failed_starts": 0}
    library = _Library()
    with tempfile.TemporaryDirectory(prefix="kvscope-faults-") as folder, ThreadPoolExecutor(1) as pool:
        data = Path(folder)
        (data / "models").symlink_to(models.absolute())
        _save_tiny_model(resolve(arguments.model, models), data / "tiny")
        flags = ["--model", str(data / "tiny"), "--auxiliary-model", str(data / "tiny"), "--no-sample-docs"]
        flags += [word for flag in UNUSED for word in (flag, "off")]
        for number in progress(range(arguments.kills + 1), "Kills"):
            with ForkedAppProcess(data, *flags) as app:
                is_last = number == arguments.kills
                if not is_last and rng.random() < START_FRACTION:
                    time.sleep(rng.uniform(0, START_S))
                    app.kill()
                    continue
                try:
                    app.wait_for("/healthz", '"ok"')
                except InvalidArgument as error:
                    counts["failed_starts"] += 1
                    print(f"start {number}: {error}")
                    break
                client = Client(app.url, verbose=False)
                lost, wrong = _compare(app, client, library, rng)
                counts["lost"] += lost
                counts["wrong"] += wrong
                if not is_last:
                    killer = Timer(rng.uniform(0, WORK_S), app.kill)
                    killer.start()
                    ended_by = pool.submit(_work, client, library, data, rng).exception()
                    if not app.is_killed:
                        counts["wrong"] += 1
                        print(f"start {number}: {ended_by!r}")
                    killer.join()
    return [{"kills": arguments.kills, "acknowledged": library.num_acknowledged, **counts}]


def _save_tiny_model(model: Path, folder: Path) -> None:
    """Write a random model of the same architecture and vocabulary."""
    config = AutoConfig.from_pretrained(model, **TINY)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def _compare(app: AppProcess, client: Client, library: _Library, rng: random.Random) -> tuple[int, int]:
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
        sources = app.ask(f"What has the code {code}?", documents=[ids[name]])["sources"]
        if {source["document"] for source in sources} != {name} or sources[0]["similarity"] is None:
            wrong += 1
            print(f"the code {code} of {name} was found in {sources}")
    return lost, wrong


def _work(client: Client, library: _Library, folder: Path, rng: random.Random) -> None:
    """Change documents until a call fails because the process was killed."""
    while True:
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
            raise _Refused(answer[0]["message"])
        library.codes, library.pending = after, None
        library.num_acknowledged += 1
