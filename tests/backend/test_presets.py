"""The presets of the Settings page: which one is in use, and its speed on this machine."""

from dataclasses import replace

import pytest

from engine.model.loading.presets import Preset


def test_a_presets_speed_is_measured_if_it_is_loaded_and_else_estimated_by_its_size(start, models, monkeypatch):
    presets = [Preset(name, number, 0, "") for name, number in ((models["one"], 1000), ("owner/absent", 10**6))]
    monkeypatch.setattr("backend.services.models.PRESETS", presets)
    backend = start()
    decoder = backend.loader.runtime.models.primary
    one, absent = backend.models.presets()
    assert (one.is_loaded, one.is_local, absent.is_loaded, absent.is_local) == (True, True, False, False)
    assert 0 < one.tokens_per_second == decoder.tokens_per_second == backend.models.loaded()[0].tokens_per_second
    seconds = 1 / one.tokens_per_second
    assert 1 / absent.tokens_per_second == pytest.approx(seconds * 10**6 / decoder.spec.num_parameters)
    assert backend.models.loaded()[1].tokens_per_second is None
    assert backend.models.suggestions() == [models["one"], "owner/absent"]
    backend.models.apply(replace(backend.models.current(), model=models["two"]))
    backend.loader.wait(60)
    assert [each.is_loaded for each in backend.models.presets()] == [False, False]
    backend.close()
    assert [each.tokens_per_second for each in backend.models.presets()] == [None, None]
