"""Damaged files of the unpacked bundled model are replaced before it is loaded."""

import pytest

from engine.model.loading import bundled

FILES = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"[]"}


@pytest.fixture
def unpack(tmp_path, monkeypatch):
    """A function that returns the bundled model's folder, and the list of its conversions so far."""
    conversions = []

    def convert(file, target):
        conversions.append(target)
        target.mkdir()
        for name, data in FILES.items():
            (target / name).write_bytes(data)

    monkeypatch.setattr(bundled, "fetch_gguf", lambda folder, report: folder / "model.gguf")
    monkeypatch.setattr(bundled, "_convert", convert)
    return lambda: (bundled.ensure_unpacked(tmp_path / "models", lambda message, fraction: None), conversions)


def test_it_is_unpacked_once(unpack):
    folder, conversions = unpack()
    unpack()
    assert len(conversions) == 1
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES


@pytest.mark.parametrize("name", [*FILES, bundled.DIGESTS_FILE])
@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: bytes([data[0] ^ 1]) + data[1:]]
)
def test_a_damaged_file_is_replaced(unpack, name, damage):
    folder, conversions = unpack()
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    unpack()
    assert len(conversions) == 2
    assert {each: (folder / each).read_bytes() for each in FILES} == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_deleted_file_is_replaced(unpack, name):
    folder, conversions = unpack()
    (folder / name).unlink()
    unpack()
    assert len(conversions) == 2 and (folder / name).read_bytes() == FILES[name]


def test_a_model_without_digests_is_of_an_earlier_version_and_gets_them(unpack):
    folder, conversions = unpack()
    (folder / bundled.DIGESTS_FILE).unlink()
    unpack()
    assert len(conversions) == 1 and (folder / bundled.DIGESTS_FILE).exists()
