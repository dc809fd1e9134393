"""The methods' own settings: drawn from data, shown one method at a time, sent as the engine wants them."""

import gradio as gr
import pytest

from engine.prompt.builder import validate
from engine.request import Request
from engine.strategies import methods
from tests.support.fake_backend.backend import METHODS, FakeBackend
from ui.components.method_options import Options, own, unusual
from ui.pages.ask.composer import build

BLEND = next(method for method in METHODS if method.name == "cacheblend")


def drawn(of, chosen):
    with gr.Blocks():
        return Options(of, chosen)


def seen(options, update):
    return [part.elem_id for part in options.components() if update[part]["visible"] is True]


@pytest.mark.parametrize("method", methods(), ids=lambda method: method.name)
def test_what_the_page_sends_untouched_is_what_the_engine_takes(method):
    options = drawn(methods(), "full")
    values = [float(part.value) if isinstance(part, gr.Slider) else part.value for part in options.components()]
    sent = options.read(method.name, values)
    assert sent == {setting.name: setting.default for setting in own(method)}
    validate(Request("why?", method.name, options=sent))
    assert unusual(method, sent) == []


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_choosing_a_method_shows_its_settings_and_no_other(method):
    options = drawn(METHODS, "epic")
    wanted = [f"option-{method.name}-{setting.name}" for setting in own(method)]
    assert seen(options, options.show(method.name)) == wanted
    first = [part.elem_id for part in drawn(METHODS, method.name).components() if part.visible is True]
    assert first == wanted


def test_each_kind_of_setting_has_its_kind_of_component():
    kinds = {part.elem_id.split("-")[-1]: type(part) for part in drawn([BLEND], "cacheblend").components()}
    assert kinds == {"deviation": gr.Dropdown, "check_layer": gr.Slider, "gradual": gr.Checkbox}


def test_a_slider_of_a_whole_number_sends_a_whole_number():
    sent = drawn([BLEND], "cacheblend").read("cacheblend", ["keys", 3.0, True])
    assert sent == {"deviation": "keys", "check_layer": 3, "gradual": True}
    assert type(sent["check_layer"]) is int


def test_only_what_differs_from_the_default_is_said():
    assert unusual(BLEND, {"deviation": "values", "check_layer": 3, "gradual": True}) == [
        "Check layer: 3",
        "Gradual filtering: on",
    ]
    assert unusual(BLEND, {"deviation": "keys"}) == ["Deviation of: keys"]


def test_a_page_without_the_default_method_begins_with_the_first():
    backend = FakeBackend()
    backend.methods = lambda: [each for each in METHODS if each.name in ("epic", "full")]
    with gr.Blocks():
        method, _, ratio, *_ = build(backend).settings
    assert (method.value, ratio.visible) == ("epic", "hidden")
