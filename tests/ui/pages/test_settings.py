"""The Settings page without a browser or a model: memory estimates, confirmations, reloads and re-indexing."""

from dataclasses import replace

import gradio as gr
import pytest

from backend.interface.models import FidelityStatus, ModelInfo, ReloadStatus, StaleChunking, SystemInfo
from engine.fidelity import RATIOS, FidelityCurve, FidelityPoint
from engine.model.loading.presets import PRESETS, Preset
from engine.model.spec import SelfTestResult
from store.types import Document
from tests.support.fake_backend.models import EMBEDDED, LARGE, SMALL, TIGHT, WANTED
from tests.ui.conftest import ME
from ui.figures.fidelity import fidelity_figure
from ui.format import size
from ui.pages.settings import model_info
from ui.pages.settings.page import Settings
from ui.pages.settings.presets import render_presets

POINTS = tuple(
    FidelityPoint(ratio, kl, 0.9, 100 + 1000 * ratio, 4.0)
    for ratio, kl in zip(RATIOS, (0.5, 0.3, 0.2, 0.08, 0.02), strict=True)
)
CURVE = FidelityCurve("cacheclip-trained", POINTS, 1000.0, 24)
HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def page(app):
    return app.settings


def page_of(backend):
    """A page of its own, for tests that need other overrides."""
    page = Settings(backend)
    with gr.Blocks(), gr.Tabs(), gr.Tab("Settings") as tab:
        page.build(tab)
    return page


def values(page, **chosen):
    settings = replace(WANTED, **chosen)
    return [getattr(settings, name) for name in page.models.inputs.components]


def click(name):
    return gr.EventData(None, {"act": "load", "id": name})


def last(updates, component):
    """The last value that a component was given."""
    sent = [update[component] for update in updates if component in update]
    return str(sent[-1]) if sent else ""


@pytest.mark.parametrize(
    "estimate, verdict", [(SMALL, "Fits: at most"), (TIGHT, "Fits for typical"), (LARGE, "Too large")]
)
def test_an_estimate_says_whether_the_model_fits(estimate, verdict):
    shown = model_info.render_estimate(estimate)
    assert verdict in shown and size(estimate.free_bytes) in shown and size(estimate.download_bytes) in shown


def test_the_parts_never_exceed_the_bar():
    zero = replace(SMALL, free_bytes=0, weights_bytes=0, max_kv_bytes=0, typical_kv_bytes=0)
    for estimate in (SMALL, TIGHT, LARGE, zero):
        widths = [float(part.split("%")[0]) for part in model_info.render_estimate(estimate).split("width:")[1:]]
        assert len(widths) == 3 and sum(widths) <= 100.01


def test_names_folders_and_errors_are_shown_as_text():
    shown = [
        model_info.render_estimate(replace(SMALL, name=HOSTILE, model_type=HOSTILE)),
        model_info.render_models([ModelInfo("primary", HOSTILE, None, HOSTILE, HOSTILE, None, None, note=HOSTILE)]),
        model_info.render_reload(ReloadStatus(running=True, message=HOSTILE)),
        model_info.render_reload(ReloadStatus(error=HOSTILE)),
        model_info.render_system_info(SystemInfo(((HOSTILE, HOSTILE),), HOSTILE, ((HOSTILE, 1),))),
        model_info.render_prompt(HOSTILE),
    ]
    assert not any("<img" in each for each in shown) and all("&lt;img" in each for each in shown)


def test_the_self_test_shows_its_result_and_its_limit():
    result = SelfTestResult(0.0123, 0.04, 0.25, 38.4)
    shown = model_info.render_models([ModelInfo("primary", "m", 1, "bf16", "CPU", 8, 9, result)])
    assert "0.012 (limit 0.25)" in shown and "38\u00a0ms" in shown and "0.04 at most" in shown


def test_without_models_the_page_says_so_and_without_tiers_or_stale_documents_nothing_is_shown():
    assert "No model is loaded yet" in model_info.render_models([])
    assert model_info.render_usage([]) == "" and model_info.render_stale_documents([], 512, 50) == ""


def test_stale_documents_are_counted_by_their_settings():
    stale = [StaleChunking(512, 50, ("a", "b", "c")), StaleChunking(1000, 0, ("d",))]
    shown = model_info.render_stale_documents(stale, 256, 32).replace("\u00a0", " ")
    assert "3 documents were chunked at 512 / 50 tokens. 1 document was chunked at 1000 / 0 tokens." in shown
    assert "current settings (256 / 32)" in shown


def test_a_model_that_fits_is_loaded_and_the_whole_page_updated(page, backend):
    updates = list(page.models.load(backend.models.current(), *values(page, model=SMALL.name)))
    assert backend.models.applied == [replace(WANTED, model=SMALL.name)]
    assert "Done" in last(updates, page.status) and SMALL.name in last(updates, page.models.loaded)
    assert updates[-1][page.seen].model == SMALL.name


def test_a_preset_shows_its_download_and_speed_and_the_one_in_use_has_no_button(backend):
    bundled, small, qwen, *_ = backend.models.presets()
    shown = render_presets([bundled, qwen]).replace("\u00a0", " ")
    in_use, other = shown.split("</li>")[:2]
    assert "31 tokens/s</strong> on this machine, measured" in in_use and "<button" not in in_use
    assert "596 M parameters" in other and "1.41 GiB download" in other
    assert "about 7.1 tokens/s</strong>, estimated from the loaded model" in other
    assert "hf download Qwen/Qwen3-0.6B" in other and "Without internet" not in in_use
    unknown = render_presets([replace(small, is_local=True, tokens_per_second=None)])
    assert "tokens/s" not in unknown and "727" not in unknown and "Without internet" not in unknown
    hostile = render_presets([replace(small, preset=Preset(HOSTILE, 1, 1, HOSTILE, HOSTILE))])
    assert "<img" not in hostile and "&lt;img" in hostile


def test_a_preset_is_loaded_with_the_present_settings_but_no_adapters_of_another_model(page, backend):
    backend.models.settings = replace(WANTED, device="cpu", lora_adapter="folder", span_scorer="off", chunk_size=64)
    updates = list(page.models.load_preset(click(SMALL.name)))
    wanted = replace(backend.models.settings, model=SMALL.name, lora_adapter="auto")
    assert backend.models.applied == [wanted] and wanted.chunk_size == 64 and wanted.span_scorer == "off"
    assert "Done" in last(updates, page.status) and SMALL.name in last(updates, page.models.loaded)
    cards = last(updates, page.models.presets).split("</li>")
    assert [SMALL.name.split("/")[1] in card for card in cards] == ["In use" in card for card in cards]
    list(page.models.load_preset(click(EMBEDDED)))
    assert backend.models.settings.model == EMBEDDED


def test_a_preset_that_is_too_large_is_loaded_after_a_confirmation(page, backend):
    backend.models.estimates[SMALL.name] = replace(LARGE, name=SMALL.name)
    updates = list(page.models.load_preset(click(SMALL.name)))
    assert not backend.models.applied and updates[-1][page.models.load_anyway_button].visible
    chosen = [updates[0][component] for component in page.models.inputs.components.values()]
    list(page.models.load_anyway(backend.models.current(), *chosen))
    assert backend.models.applied == [replace(WANTED, model=SMALL.name)]


def test_presets_cannot_be_loaded_if_a_flag_sets_the_main_model(backend):
    backend.models.flags = {"model": "--model"}
    page = page_of(backend)
    shown = str(page.models.updates()[page.models.presets])
    assert shown.count("<button") == shown.count('disabled=""') == len(PRESETS) - 1 and "set by --model" in shown


def test_where_memory_is_short_loading_has_to_be_confirmed(page, backend):
    models = page.models
    updates = list(models.load(backend.models.current(), *values(page, model=LARGE.name)))
    assert not backend.models.applied and "Too large" in last(updates, models.estimates)
    assert updates[-1][models.load_anyway_button].visible and not updates[-1][models.load_button].visible
    assert models.show()[models.load_button].visible and not backend.models.applied
    list(models.load_anyway(backend.models.current(), *values(page, model=LARGE.name)))
    assert [settings.model for settings in backend.models.applied] == [LARGE.name]


@pytest.mark.parametrize("name, reason", [(HOSTILE, "neither a folder"), ("offline/model", "cannot be reached")])
def test_an_invalid_model_name_is_an_error_in_the_section(page, backend, name, reason):
    for handler in (page.models.check, page.models.load):
        shown = last(list(handler(backend.models.current(), *values(page, model=name))), page.models.estimates)
        assert reason in shown and "<img" not in shown
    assert not backend.models.applied


def test_a_failed_reload_shows_its_reason_and_resets_the_inputs(page, backend):
    backend.models.failure = "'Qwen/Qwen3-0.6B' failed its self-test. The previous settings are in use again."
    updates = list(page.models.load(backend.models.current(), *values(page, model=SMALL.name)))
    assert "in use again" in last(updates, page.status)
    assert updates[-1][page.models.inputs.components["model"]] == EMBEDDED


def test_unchanged_settings_and_bugs_are_error_messages(page, backend, monkeypatch):
    assert "already in use" in last(list(page.models.load(backend.models.current(), *values(page))), page.status)
    monkeypatch.setattr(backend.models, "reload_status", lambda: 1 / 0)
    assert "Something went wrong" in last(list(page.refresh(None)), page.status)


def test_unapplied_input_is_kept_until_the_settings_change(page, backend):
    model = page.models.inputs.components["model"]
    assert model not in next(page.refresh(WANTED))
    backend.models.settings = replace(WANTED, model=SMALL.name)
    assert next(page.refresh(WANTED))[model] == SMALL.name


def test_a_reload_started_in_another_tab_is_followed_when_the_page_is_opened(page, backend):
    backend.models.proceed.clear()
    backend.models.apply(replace(WANTED, eviction_policy="lru"))
    steps = page.refresh(WANTED)
    next(steps)
    assert "Downloading" in str(next(steps)[page.status])
    backend.models.proceed.set()
    assert list(steps)[-1][page.seen].eviction_policy == "lru"


def test_a_setting_overridden_by_a_flag_cannot_be_changed_and_says_so(backend):
    backend.models.flags = {"model": "--model", "cpu_cache_gib": "KVSCOPE_CPU_CACHE_GIB"}
    page = page_of(backend)
    for inputs, name in ((page.models.inputs, "model"), (page.cache, "cpu_cache_gib")):
        component = inputs.components[name]
        assert component.interactive is False and backend.models.flags[name] in component.info
    assert page.cache.components["eviction_policy"].interactive is not False


def test_an_emptied_input_changes_nothing_and_numbers_keep_their_type(page):
    seen = replace(WANTED, cpu_cache_gib=1.5, disk_cache_gib=4.0, disk_kv_bits=16, eviction_policy="pgdsf")
    assert page.cache.read((None, "", 8, "pgdsf"), seen) == {"disk_kv_bits": 8}
    changes = page.cache.read((2, 4, 16, "lru"), seen)
    assert changes == {"cpu_cache_gib": 2.0, "eviction_policy": "lru"} and isinstance(changes["cpu_cache_gib"], float)
    assert page.models.inputs.read(values(page, model="  a/b "), WANTED)["model"] == "a/b"


def test_applying_keeps_what_another_tab_has_changed_meanwhile(page, backend):
    seen = backend.models.current()
    backend.models.settings = replace(seen, eviction_policy="lru", reranker="on")
    chosen = values(page, model=SMALL.name)
    list(page.models.load(seen, *chosen))
    assert backend.models.applied == [replace(seen, model=SMALL.name, eviction_policy="lru", reranker="on")]


def test_input_of_another_section_is_kept_while_settings_are_applied(page):
    shown = list(page.follow(WANTED, {"eviction_policy": "lru"}))[-1]
    assert shown[page.cache.components["eviction_policy"]] == "lru"
    assert page.chunking.inputs.components["chunk_size"] not in shown


def test_stale_documents_are_reindexed(page, backend):
    backend.stored_documents = [Document(name, f"{name}.md", 1, None, 1, 0.0) for name in "abc"]
    backend.models.stale = [StaleChunking(512, 50, ("a", "b")), StaleChunking(64, 8, ("c",))]
    chunking = page.chunking
    assert chunking.updates()[chunking.reindex_button].visible
    updates = list(chunking.reindex(ME))
    assert backend.library.reindexed == ["a", "b", "c"] and "c.md" in last(updates, chunking.progress)
    assert "3\u00a0files ready" in last(updates, chunking.progress)
    assert updates[-1][chunking.stale] == "" and not updates[-1][chunking.reindex_button].visible
    assert len(page.tasks) == 0


def test_before_a_calibration_the_page_says_so():
    shown = model_info.render_fidelity(FidelityStatus(3, 24))
    assert "Not calibrated: 3 of 24" in shown and "continues when" in shown and "<table" not in shown


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (FidelityStatus(3, 24, is_enabled=False), "--no-idle-calibration"),
        (FidelityStatus(3, 24, error="Out of memory."), "it failed"),
        (FidelityStatus(3, 24, is_running=True), "running"),
    ],
)
def test_an_unfinished_calibration_says_why_it_does_not_wait_for_idle_time(status, reason):
    shown = model_info.render_fidelity(status)
    assert reason in shown and "continues when" not in shown


def test_a_calibration_recommends_the_least_faithful_ratio_and_lists_all():
    shown = model_info.render_fidelity(FidelityStatus(24, 24, CURVE))
    assert "a recompute ratio of 19\u00a0%" in shown and "alibrated" not in shown
    assert shown.count("<tr>") == 1 + len(RATIOS) + 1


def test_an_unfinished_calibration_is_preliminary():
    assert "Preliminary: 13 of 24" in model_info.render_fidelity(FidelityStatus(13, 24, CURVE, is_running=True))


def test_a_model_on_which_reuse_is_not_faithful_is_named():
    unfaithful = replace(CURVE, points=tuple(replace(point, kl=1.0) for point in POINTS))
    assert "Not faithful: even at 40" in model_info.render_fidelity(FidelityStatus(24, 24, unfaithful))


def test_a_failed_calibration_shows_its_error_as_text():
    shown = model_info.render_fidelity(FidelityStatus(1, 24, error=HOSTILE))
    assert HOSTILE not in shown and "onerror" in shown


def test_the_plot_has_one_point_per_ratio_and_one_for_full_prefill():
    ratios, full = fidelity_figure(CURVE).data
    assert list(ratios.x) == [point.ttft_ms for point in POINTS] and list(ratios.y) == [point.kl for point in POINTS]
    assert (list(full.x), list(full.y)) == ([1000.0], [0])
