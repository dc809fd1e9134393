"""Settings that are wrong are named in a sentence, before anything is loaded."""

import errno
from pathlib import Path

import pytest

from backend.local import LocalBackend
from backend.runtime.settings import BadSettings, Settings, overrides, read_settings
from store.errors import StoreFull
from store.preferences import FILE, Preferences
from store.retrieval.reranker import RerankerUnusable
from tests.support.fakes import word_tokenizer


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--chunk-tokens", "512", "--chunk-overlap", "600"], "--chunk-overlap 600 must be below --chunk-tokens 512"),
        (["--port", "99999"], "--port: Input should be less than or equal to 65535"),
        (["--dtype", "fp99"], "--dtype: Input should be 'auto', 'bf16' or 'fp32'"),
        (["--disk-gib", "-1"], "--disk-gib: Input should be greater than or equal to 0"),
    ],
)
def test_a_setting_outside_its_range_is_named_with_what_it_may_be(arguments, said):
    with pytest.raises(BadSettings) as caught:
        read_settings(arguments)
    assert said in str(caught.value) and "--help" in str(caught.value)


def test_settings_come_from_the_command_line():
    assert read_settings(["--port", "7871", "--dtype", "fp32", "--no-samples"]).port == 7871


def test_a_folder_below_the_home_may_be_named_as_shells_name_it():
    assert read_settings(["--data=~/kvscope"]).data == Path.home() / "kvscope"


@pytest.fixture(autouse=True)
def _nobody_elses_choices(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("KVSCOPE_DATA", str(tmp_path_factory.mktemp("data")))


def test_nothing_reranks_unless_it_is_asked_for(tmp_path):
    assert read_settings([]).reranker == "off"
    backend = LocalBackend(Settings(data=tmp_path))
    library = backend.loader.open_documents(word_tokenizer())
    assert library._search._reranker is None
    library.close()


def test_a_reranker_that_is_nowhere_is_named_before_the_library_is_opened(tmp_path):
    settings = read_settings(["--data", str(tmp_path / "data"), "--reranker", str(tmp_path / "nowhere")])
    with pytest.raises(RerankerUnusable, match=r"nowhere.*Give --reranker"):
        LocalBackend(settings).loader.open_documents(word_tokenizer())
    assert not (tmp_path / "data").exists()


def chosen(folder, **values):
    Preferences(folder).write(values)


def test_a_flag_goes_before_the_environment_before_the_choice_before_the_default(tmp_path, monkeypatch):
    here = ["--data", str(tmp_path)]
    assert read_settings(here).policy == "pgdsf"
    chosen(tmp_path, policy="lru")
    assert read_settings(here).policy == "lru"
    monkeypatch.setenv("KVSCOPE_POLICY", "lfu")
    assert read_settings(here).policy == "lfu"
    assert read_settings([*here, "--policy", "gdsf"]).policy == "gdsf"


def test_a_flag_that_asks_for_the_default_still_goes_before_the_choice(tmp_path):
    chosen(tmp_path, policy="lru", host_gib=4.0)
    found = read_settings(["--data", str(tmp_path), "--policy", "pgdsf", "--host-gib", "1.5"])
    assert (found.policy, found.host_gib) == ("pgdsf", 1.5)


def test_the_choices_are_those_of_the_data_folder_that_is_given(tmp_path, monkeypatch):
    chosen(tmp_path / "one", policy="lru")
    chosen(tmp_path / "two", policy="lfu")
    monkeypatch.setenv("KVSCOPE_DATA", str(tmp_path / "one"))
    assert read_settings([]).policy == "lru"
    assert read_settings(["--data", str(tmp_path / "two")]).policy == "lfu"


@pytest.mark.parametrize(
    "name, value",
    [
        ("colour", "green"),
        ("port", 1),
        ("data", "elsewhere"),
        ("clear_cache", True),
        ("dtype", "fp99"),
        ("host_gib", -1),
        ("host_gib", "much"),
        ("host_gib", float("inf")),
        ("kv_bits", 4),
        ("model", ["a", "b"]),
        ("chunk_tokens", None),
        ("chunk_overlap", 5000),
    ],
)
def test_a_choice_that_is_unknown_or_wrong_is_logged_and_the_others_stand(tmp_path, caplog, name, value):
    chosen(tmp_path, **{"policy": "lru", name: value})
    found, plain = read_settings(["--data", str(tmp_path)]), read_settings(["--data", str(tmp_path / "other")])
    assert found == plain.model_copy(update={"data": tmp_path, "policy": "lru"})
    assert "left aside" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\x00", '{"policy": "lru"', "[" * 100_000])
def test_a_file_that_cannot_be_read_is_logged_and_the_defaults_stand(tmp_path, caplog, content):
    (tmp_path / FILE).write_text(content)
    assert read_settings(["--data", str(tmp_path)]).policy == "pgdsf"
    assert "left aside" in caplog.text


def test_a_flag_that_no_longer_fits_a_chosen_passage_length_leaves_the_choice_aside(tmp_path, caplog):
    chosen(tmp_path, chunk_tokens=200, chunk_overlap=100)
    assert read_settings(["--data", str(tmp_path)]).chunk_overlap == 100
    found = read_settings(["--data", str(tmp_path), "--chunk-overlap", "300"])
    assert (found.chunk_tokens, found.chunk_overlap) == (512, 300)
    assert "do not fit together" in caplog.text


def test_a_flag_of_the_wrong_kind_is_named_whatever_was_chosen(tmp_path):
    chosen(tmp_path, chunk_overlap=100)
    with pytest.raises(BadSettings, match="--chunk-tokens"):
        read_settings(["--data", str(tmp_path), "--chunk-tokens", "abc"])
    found = read_settings(["--data", str(tmp_path), "--chunk-tokens", "256.0"])
    assert (found.chunk_tokens, found.chunk_overlap) == (256, 100)


def test_choices_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    kept = Preferences(tmp_path / "new")
    kept.write({"policy": "lru"})

    def full(self, *_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreFull):
        kept.write({"policy": "lfu"})
    assert kept.read() == {"policy": "lru"}


def test_all_that_may_be_chosen_comes_back_as_it_was(tmp_path):
    values = {"model": "a/b", "device_gib": 0.5, "kv_bits": 8, "chunk_tokens": 128, "chunk_overlap": 0, "dtype": "fp32"}
    wanted = Settings(data=tmp_path).with_choices(values)
    Preferences(tmp_path).write(wanted.choices())
    assert read_settings(["--data", str(tmp_path)]) == wanted
    with pytest.raises(BadSettings, match=r"--kv-bits.*--help"):
        wanted.with_choices({"kv_bits": 7})


def test_what_fixes_a_setting_is_named():
    environment = {"KVSCOPE_MODEL": "x", "kvscope_policy": "lru", "KVSCOPE_DATA": "y"}
    found = overrides(["--model=x", "--chunk-tokens", "5", "--no-samples"], environment)
    assert found == {"model": "--model", "chunk_tokens": "--chunk-tokens", "policy": "KVSCOPE_POLICY"}
