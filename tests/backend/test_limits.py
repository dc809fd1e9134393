"""The documentation's table of limits is that of the settings, and each limit reaches the library."""

import re
from dataclasses import asdict
from pathlib import Path

import annotated_types
import pytest

from backend.interface.errors import BadSettings
from backend.local import LocalBackend
from backend.runtime.settings import Settings, read_settings
from store.limits import DEFAULT_LIMITS, Limits
from tests.support.fakes import WordEmbedder, word_tokenizer

TABLE = Path(__file__).parents[2] / "docs" / "limits.md"
ROW = re.compile(r"^\| `--([a-z-]+)` \| (\S+) \| ([^|]+) \|", re.MULTILINE)
NAMES = [name for name in Settings.model_fields if re.match("max_|client_|.*_timeout_", name)]
MORE = {"max_file_mib": 7, "max_pages": 8, "max_ocr_pages": 9, "max_picture_pages": 10}
OTHER = Limits(**MORE, max_characters=1100, max_documents=12)


def allowed(name):
    """Return the values that a setting allows, in the words of the table."""
    bounds = {type(each): each for each in Settings.model_fields[name].metadata}
    if annotated_types.Gt in bounds:
        return f"above {bounds[annotated_types.Gt].gt}"
    least = bounds[annotated_types.Ge].ge
    return f"{least} to {bounds[annotated_types.Le].le}" if annotated_types.Le in bounds else f"{least} or more"


def test_the_table_has_each_limit_with_its_default_and_bounds():
    rows = [
        (name.replace("-", "_"), float(default), bounds) for name, default, bounds in ROW.findall(TABLE.read_text())
    ]
    assert rows and sorted(rows) == sorted((name, Settings.model_fields[name].default, allowed(name)) for name in NAMES)


def test_every_limit_on_documents_is_a_setting_with_the_same_default():
    assert Settings().limits == DEFAULT_LIMITS
    assert asdict(DEFAULT_LIMITS).keys() | {"max_questions"} == {name for name in NAMES if name.startswith("max_")}


@pytest.mark.parametrize("name", NAMES)
def test_flags_and_variables_set_a_limit_within_its_bounds(name, monkeypatch):
    flag = f"--{name.replace('_', '-')}"
    assert getattr(read_settings([flag, "1000" if name == "max_characters" else "1"]), name) in (1, 1000)
    bounds = [each.le for each in Settings.model_fields[name].metadata if isinstance(each, annotated_types.Le)]
    for wrong in ("-1", *(str(bound + 1) for bound in bounds)):
        with pytest.raises(BadSettings, match=flag):
            read_settings([flag, wrong])
        monkeypatch.setenv(f"KVSCOPE_{name.upper()}", wrong)
        with pytest.raises(BadSettings, match=flag):
            read_settings([])


def test_the_library_gets_the_limits_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setattr("backend.runtime.loader.MiniLM", lambda config: WordEmbedder())
    settings = Settings(data=tmp_path, **asdict(OTHER))
    library = LocalBackend(settings).loader.open_library(word_tokenizer())
    assert library._limits == OTHER
    library.close()
