"""The inputs of method parameters: generated from `MethodInfo`, shown one method at a time, valid for the engine."""

import gradio as gr
import pytest

from engine.prompt.validate import validate
from engine.request import Request
from engine.strategies import list_methods
from tests.support.fake_backend.backend import METHODS, FakeBackend
from ui.components.method_options import MethodOptions, extra_params, non_default_options
from ui.pages.ask.composer import Composer

BLEND = next(method for method in METHODS if method.name == "cacheblend")


@pytest.fixture(scope="module")
def engine_options():
    with gr.Blocks():
        return MethodOptions(list_methods(), "full")


def options_of(methods, chosen):
    with gr.Blocks():
        return MethodOptions(methods, chosen)


@pytest.mark.parametrize("method", list_methods(), ids=lambda method: method.name)
def test_untouched_inputs_are_valid_for_the_engine(engine_options, method):
    components = engine_options.components()
    values = [float(each.value) if isinstance(each, gr.Slider) else each.value for each in components]
    options = engine_options.read(method.name, values)
    assert options == {param.name: param.default for param in extra_params(method)}
    validate(Request("why?", method.name, options=options))
    assert non_default_options(method, options) == []


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_only_the_chosen_methods_inputs_are_visible(method):
    expected = [f"option-{method.name}-{param.name}" for param in extra_params(method)]
    options = options_of(METHODS, method.name)
    assert [each.elem_id for each in options.components() if each.visible is True] == expected
    update = options.show(method.name)
    assert [each.elem_id for each in options.components() if update[each]["visible"] is True] == expected
    other = "full" if method.name != "full" else "epic"
    hidden = options.show(other)
    assert not [each for each in options.components() if each.elem_id in expected and hidden[each]["visible"] is True]


def test_each_kind_of_parameter_has_its_kind_of_component():
    components = options_of([BLEND], "cacheblend").components()
    kinds = {each.elem_id.split("-")[-1]: type(each) for each in components}
    assert kinds == {"deviation": gr.Dropdown, "check_layer": gr.Slider, "gradual": gr.Checkbox}


def test_a_slider_of_an_integer_parameter_sends_an_int():
    options = options_of([BLEND], "cacheblend").read("cacheblend", ["keys", 3.0, True])
    assert options == {"deviation": "keys", "check_layer": 3, "gradual": True}
    assert type(options["check_layer"]) is int


def test_only_options_that_differ_from_the_default_are_described():
    assert non_default_options(BLEND, {"deviation": "values", "check_layer": 3, "gradual": True}) == [
        "Check layer: 3",
        "Gradual filtering: on",
    ]
    assert non_default_options(BLEND, {"deviation": "keys"}) == ["Deviation of: keys"]


def test_without_the_default_method_the_first_one_is_selected():
    backend = FakeBackend()
    backend.methods = lambda: [method for method in METHODS if method.name in ("epic", "full")]
    with gr.Blocks(), gr.Tab() as tab:
        method, _, ratio, *_ = Composer(backend, tab).settings
    assert (method.value, ratio.visible) == ("epic", "hidden")
