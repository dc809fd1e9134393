"""Settings that are wrong are named in a sentence, before anything is loaded."""

import pytest

from backend.local import LocalBackend
from settings import BadSettings, Settings, read_settings
from store.rerank import RerankerUnusable
from tests.store.fakes import word_tokenizer


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
