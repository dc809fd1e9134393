"""Settings: their sources and precedence, validation messages, and names of earlier versions."""

import errno
import json
import os
from pathlib import Path

import pytest

from backend.interface.errors import BadSettings
from backend.local import LocalBackend
from backend.runtime.settings import (
    MUTABLE_SETTINGS,
    Settings,
    overrides,
    read_preferences,
    read_settings,
    save_preferences,
)
from store.errors import StoreFull
from store.preferences import FILE_NAME, Preferences
from store.retrieval.reranker import RerankerUnusable
from tests.support.fakes import word_tokenizer

ALIASES = {  # alias flag -> name of the setting, a value that is not the default
    "--reader": ("lora_adapter", "off"),
    "--pointer": ("span_scorer", "off"),
    "--selector": ("token_selector", "off"),
    "--auxiliary": ("auxiliary_model", "small"),
    "--device-gib": ("gpu_cache_gib", 0.5),
    "--host-gib": ("cpu_cache_gib", 0.25),
    "--disk-gib": ("disk_cache_gib", 4.0),
    "--kv-bits": ("disk_kv_bits", 8),
    "--policy": ("eviction_policy", "lru"),
    "--chunk-tokens": ("chunk_size", 256),
    "--data-dir": ("data", Path("/elsewhere")),
}


@pytest.fixture(autouse=True)
def _empty_data_folder(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("KVSCOPE_DATA", str(tmp_path_factory.mktemp("data")))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--chunk-size", "512", "--chunk-overlap", "600"], "--chunk-overlap 600 must be below --chunk-size 512"),
        (["--port", "99999"], "--port: Input should be less than or equal to 65535"),
        (["--dtype", "fp99"], "--dtype: Input should be 'auto', 'bf16' or 'fp32'"),
        (["--disk-cache-gib", "-1"], "--disk-cache-gib: Input should be greater than or equal to 0"),
        (["--ingest-timeout-minutes", "nan"], "--ingest-timeout-minutes: Input should be greater than 0"),
        (["--disk-gib", "-1"], "--disk-cache-gib: Input should be greater than or equal to 0"),
    ],
)
def test_an_invalid_setting_is_named_with_its_allowed_values(arguments, message):
    with pytest.raises(BadSettings) as caught:
        read_settings(arguments)
    assert message in str(caught.value) and "--help" in str(caught.value)


def test_settings_come_from_the_command_line():
    settings = read_settings(["--port", "7871", "--dtype", "fp32", "--no-sample-docs"])
    assert (settings.port, settings.dtype, settings.sample_docs) == (7871, "fp32", False)


def test_a_tilde_in_the_data_folder_is_expanded():
    assert read_settings(["--data=~/kvscope"]).data == Path.home() / "kvscope"


@pytest.mark.parametrize("flag", ALIASES)
def test_flags_and_variables_of_version_0_1_still_apply(flag, monkeypatch):
    name, value = ALIASES[flag]
    assert getattr(read_settings([flag, str(value)]), name) == value != getattr(read_settings([]), name)
    current, old = f"--{name.replace('_', '-')}", f"KVSCOPE_{flag[2:].replace('-', '_').upper()}"
    monkeypatch.delenv("KVSCOPE_DATA")
    monkeypatch.setenv(old, str(value))
    assert getattr(read_settings([]), name) == value
    if name in MUTABLE_SETTINGS:
        assert overrides([], {old: str(value)}) == {name: old}
        assert overrides([f"{flag}={value}"], {}) == {name: flag} and overrides([current], {}) == {name: current}


def test_the_sample_documents_can_be_turned_off_by_their_old_name(monkeypatch):
    assert not read_settings(["--no-samples"]).sample_docs
    monkeypatch.setenv("KVSCOPE_SAMPLES", "false")
    assert not read_settings([]).sample_docs


def test_preferences_of_version_0_1_apply_and_are_saved_under_the_current_names(tmp_path):
    old = {flag[2:].replace("-", "_"): value for flag, (name, value) in ALIASES.items() if name != "data"}
    current = {name: value for name, value in ALIASES.values() if name != "data"}
    save(tmp_path, **old, dtype="fp32")
    settings = read_settings(["--data", str(tmp_path)])
    assert {name: getattr(settings, name) for name in current} == current and settings.dtype == "fp32"
    save_preferences(settings.updated({"chunk_overlap": 8}), {"eviction_policy"})
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {**current, "dtype": "fp32", "chunk_overlap": 8}


def test_a_current_name_in_the_preferences_goes_before_the_old_one(tmp_path):
    save(tmp_path, policy="lru", eviction_policy="lfu")
    assert read_preferences(tmp_path) == {"eviction_policy": "lfu"}


def test_nothing_reranks_unless_a_reranker_is_set(tmp_path, monkeypatch):
    monkeypatch.setattr("backend.runtime.loader.CrossEncoderReranker", lambda name: pytest.fail(f"{name} was loaded"))
    assert read_settings([]).reranker == "off"
    LocalBackend(Settings(data=tmp_path)).loader.open_library(word_tokenizer()).close()


def test_a_missing_reranker_is_reported_before_the_library_is_opened(tmp_path):
    settings = read_settings(["--data", str(tmp_path / "data"), "--reranker", str(tmp_path / "nowhere")])
    with pytest.raises(RerankerUnusable, match=r"nowhere.*--reranker"):
        LocalBackend(settings).loader.open_library(word_tokenizer())
    assert not (tmp_path / "data").exists()


def save(folder, **values):
    Preferences(folder).write(values)


def test_a_flag_goes_before_the_environment_before_the_preferences_before_the_default(tmp_path, monkeypatch):
    here = ["--data", str(tmp_path)]
    assert read_settings(here).eviction_policy == "pgdsf"
    save(tmp_path, eviction_policy="lru")
    assert read_settings(here).eviction_policy == "lru"
    monkeypatch.setenv("KVSCOPE_EVICTION_POLICY", "lfu")
    assert read_settings(here).eviction_policy == "lfu"
    assert read_settings([*here, "--eviction-policy", "gdsf"]).eviction_policy == "gdsf"


def test_a_flag_with_the_default_value_still_goes_before_the_preferences(tmp_path):
    save(tmp_path, eviction_policy="lru", cpu_cache_gib=4.0)
    settings = read_settings(["--data", str(tmp_path), "--eviction-policy", "pgdsf", "--cpu-cache-gib", "1.5"])
    assert (settings.eviction_policy, settings.cpu_cache_gib) == ("pgdsf", 1.5)


def test_the_preferences_are_those_of_the_given_data_folder(tmp_path, monkeypatch):
    save(tmp_path / "one", eviction_policy="lru")
    save(tmp_path / "two", eviction_policy="lfu")
    monkeypatch.setenv("KVSCOPE_DATA", str(tmp_path / "one"))
    assert read_settings([]).eviction_policy == "lru"
    assert read_settings(["--data", str(tmp_path / "two")]).eviction_policy == "lfu"


@pytest.mark.parametrize(
    "name, value",
    [
        ("colour", "green"),
        ("port", 1),
        ("data", "elsewhere"),
        ("clear_cache", True),
        ("dtype", "fp99"),
        ("cpu_cache_gib", -1),
        ("host_gib", -1),
        ("cpu_cache_gib", "much"),
        ("cpu_cache_gib", float("inf")),
        ("disk_kv_bits", 4),
        ("model", ["a", "b"]),
        ("chunk_size", None),
        ("chunk_overlap", 5000),
    ],
)
def test_an_unknown_or_invalid_preference_is_logged_and_the_others_apply(tmp_path, caplog, name, value):
    save(tmp_path, **{"eviction_policy": "lru", name: value})
    settings, defaults = read_settings(["--data", str(tmp_path)]), read_settings(["--data", str(tmp_path / "other")])
    assert settings == defaults.model_copy(update={"data": tmp_path, "eviction_policy": "lru"})
    assert "ignored" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\x00", '{"eviction_policy": "lru"', "[" * 100_000])
def test_an_unreadable_preferences_file_is_logged_and_the_defaults_apply(tmp_path, caplog, content):
    (tmp_path / FILE_NAME).write_text(content)
    assert read_settings(["--data", str(tmp_path)]).eviction_policy == "pgdsf"
    assert str(tmp_path / FILE_NAME) in caplog.text


def test_a_flag_that_does_not_fit_the_saved_chunk_size_resets_it(tmp_path, caplog):
    save(tmp_path, chunk_size=200, chunk_overlap=100)
    assert read_settings(["--data", str(tmp_path)]).chunk_overlap == 100
    settings = read_settings(["--data", str(tmp_path), "--chunk-overlap", "300"])
    assert (settings.chunk_size, settings.chunk_overlap) == (512, 300)
    assert "do not fit together" in caplog.text


def test_a_flag_of_the_wrong_type_is_named_whatever_was_saved(tmp_path):
    save(tmp_path, chunk_overlap=100)
    with pytest.raises(BadSettings, match="--chunk-size"):
        read_settings(["--data", str(tmp_path), "--chunk-size", "abc"])
    settings = read_settings(["--data", str(tmp_path), "--chunk-size", "256.0"])
    assert (settings.chunk_size, settings.chunk_overlap) == (256, 100)


def test_preferences_are_written_completely_or_not_at_all(tmp_path, monkeypatch):
    preferences = Preferences(tmp_path / "new")
    preferences.write({"eviction_policy": "lru"})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StoreFull):
        preferences.write({"eviction_policy": "lfu"})
    assert preferences.read() == {"eviction_policy": "lru"}


def test_every_mutable_setting_comes_back_as_it_was_saved(tmp_path):
    values = {"model": "a/b", "gpu_cache_gib": 0.5, "disk_kv_bits": 8, "chunk_size": 128, "chunk_overlap": 0}
    settings = Settings(data=tmp_path).updated({**values, "dtype": "fp32"})
    Preferences(tmp_path).write(settings.mutable_values())
    assert read_settings(["--data", str(tmp_path)]) == settings
    with pytest.raises(BadSettings, match=r"--disk-kv-bits.*--help"):
        settings.updated({"disk_kv_bits": 7})


def test_folders_to_watch_are_flags_or_a_variable_like_path(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    assert read_settings(["--watch", str(one), "--watch", str(two)]).watch == [one, two]
    for value in (f"{one}{os.pathsep}{two}", json.dumps([str(one), str(two)])):
        monkeypatch.setenv("KVSCOPE_WATCH", value)
        assert read_settings([]).watch == [one, two]
    monkeypatch.setenv("KVSCOPE_WATCH", "[broken")
    with pytest.raises(BadSettings, match="watch"):
        read_settings([])


def test_overrides_name_the_flag_or_variable_of_each_setting():
    environment = {"KVSCOPE_MODEL": "x", "kvscope_eviction_policy": "lru", "KVSCOPE_DATA": "y"}
    found = overrides(["--model=x", "--chunk-size", "5", "--no-sample-docs"], environment)
    assert found == {"model": "--model", "chunk_size": "--chunk-size", "eviction_policy": "KVSCOPE_EVICTION_POLICY"}


@pytest.mark.parametrize(
    "url, message",
    [
        ("localhost:11434", "is not an address"),
        ("file:///etc/passwd", "is not an address"),
        ("http://", "is not an address"),
        ("http://me:secret@box/v1", "leave the user and the password out"),
        ("http://box/v1?key=1", "is not an address"),
    ],
)
def test_the_address_of_an_answer_server_is_checked(url, message):
    with pytest.raises(BadSettings, match=message):
        Settings(answer_server=url, answer_server_model="big")


def test_an_answer_server_needs_a_model_and_a_model_needs_a_server():
    for values in ({"answer_server": "http://box/v1"}, {"answer_server_model": "big"}):
        with pytest.raises(BadSettings, match="need each other"):
            Settings(**values)
    assert Settings(answer_server="http://box/v1/", answer_server_model="big").answer_server == "http://box/v1"
