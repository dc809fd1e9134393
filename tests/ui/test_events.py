"""Listeners: several handlers of one event."""

import gradio as gr

from ui.component_styles import component_styles
from ui.events import Listeners


def test_each_listener_gets_its_own_inputs_and_all_updates_are_sent_together():
    with gr.Blocks() as page:
        first, second, third = (gr.Textbox() for _ in range(3))
        listeners = Listeners()
        listeners.add(lambda one, two: {third: one + two}, [first, second], [third])
        listeners.add(lambda: {first: "new"}, [], [first])
        listeners.add(lambda two: {second: two * 2}, [second], [second])
        listeners.connect(page.load)
    (event,) = page.fns.values()
    assert event.inputs == [first, second, second] and event.outputs == [third, first, second]
    assert event.fn("a", "b", "b") == {third: "ab", first: "new", second: "bb"}


def test_a_listener_that_fails_leaves_the_others_alone(caplog):
    with gr.Blocks():
        first, second = gr.Textbox(), gr.Textbox()
    listeners = Listeners()
    listeners.add(lambda one: 1 / 0, [first], [first])
    listeners.add(lambda two: {second: two}, [second], [second])
    assert listeners._run("a", "b") == {second: "b"} and "ZeroDivisionError" in caplog.text


def test_the_page_has_the_styles_of_its_components_and_disabled_links_to_their_files():
    with gr.Blocks() as page:
        gr.Slider()
    head = component_styles(page)
    assert head.count(" disabled=") == head.count("<link ") > 2
    assert "input[type=range]" in head and len(head) < 60_000
    assert len(head) < len(component_styles(_with_dropdown(page)))


def _with_dropdown(page):
    with page:
        gr.Dropdown()
    return page
