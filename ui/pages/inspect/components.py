"""The components of the Inspect page and where they stand."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from backend.interface.backend import Backend
from engine.method import MethodInfo
from ui.components.document_picker import DocumentPicker
from ui.components.inputs import go_and_stop, method_choice, passages_slider, question_box, ratio_slider
from ui.html import Markup, tag
from ui.pages.inspect import view as inspected

ALL = 0  # which passage is looked at: every one
_RATIO = "Moves at once: the choice is drawn from stored scores, no model runs."
_EMPTY = (
    "See where the models look for a question, and which words each method would compute anew at every ratio. "
    "Type a question above and press Inspect: the passages are read once in full, then the slider answers at once."
)
_MAP = (
    "Each row is a layer of the main model, each column a spot in the passages; "
    "the stronger the colour, the more the question looks there."
)
_KL = "How differently each layer looks, compared with the last one: 0 is the same."
_AGREEMENT = "Of the tokens that either side picks, the share that both pick: 1 is full agreement."
_RANKS = "Each dot is a window of 8 tokens; near the diagonal, both models find it equally worth looking at."
_HINTS = {
    _MAP: "Attention of the question's tokens in a full prefill, averaged over heads, beside the average of its row. "
    "The shared prefix is left out. The top row is the auxiliary model, which reads each passage alone.",
    _KL: "Kullback-Leibler divergence KL(last layer || layer), in nats; the prefix and the passages' sinks are left "
    "out, since they would swamp it. The dashed line is the auxiliary model's last layer: where it lies below a bar, "
    "the small model is the better guide than that layer.",
    _AGREEMENT: "Jaccard similarity with the primary's last layer, sinks left out. Amber: the chosen method against as "
    "many tokens of the oracle, which knows where the main model looks. Violet: the most looked-at tokens of the small "
    "model. Grey: the other methods; dotted: chance.",
    _RANKS: "Windows ranked by mean attention: the auxiliary across, the primary's last layer up. Amber dots are "
    "recomputed. Spearman's rank correlation is 1 for the same order, 0 for none.",
}
_KL_KEYS = (("green", "layer of the main model"), ("violet", "small model"))
_AGREEMENT_KEYS = (("orange", "chosen method"), ("violet", "small model"), ("grey", "the others"))
_RANKS_KEYS = (("orange", "recomputed"), ("grey", "reused"))


@dataclass(frozen=True, slots=True)
class Parts:
    """What the page's events read and fill."""

    question: gr.Textbox
    inspect: gr.Button
    stop: gr.Button
    where: DocumentPicker
    passages: gr.Slider
    progress: gr.HTML
    empty: gr.HTML
    found: gr.Column
    only: gr.Radio
    text: gr.HTML
    method: gr.Dropdown
    ratio: gr.Slider
    summary: gr.HTML
    apply: gr.Button
    halt: gr.Button
    answer: gr.HTML
    map: gr.Plot
    kl: gr.Plot
    agreement: gr.Plot
    ranks: gr.HTML


def draw(methods: Sequence[MethodInfo], backend: Backend) -> Parts:
    """Draw the page inside the open tab."""
    with gr.Column(elem_id="inspect-page", elem_classes="kv-page", min_width=0):
        with gr.Row(elem_id="inspect-box", equal_height=False):
            question, inspect, stop, passages = _box()
            where = DocumentPicker(backend, "inspect-where")
        progress = gr.HTML(elem_id="inspect-progress", js_on_load=None)
        empty = gr.HTML(tag("p", _EMPTY, class_="kv-lede"), elem_id="inspect-empty", js_on_load=None)
        with gr.Column(elem_id="inspect-found", min_width=0, visible=False) as found:
            with gr.Column(elem_id="inspect-choice", min_width=0):
                method, ratio = _choice(methods)
                summary = gr.HTML(elem_id="inspect-summary", js_on_load=None)
                with gr.Row(elem_id="inspect-apply-row"):
                    apply = gr.Button("Apply: ask with this", variant="primary", elem_id="inspect-apply")
                    halt = gr.Button("Stop", variant="stop", visible=False, elem_id="inspect-halt")
                answer = gr.HTML(elem_id="inspect-answer", js_on_load=None)
            with gr.Column(elem_id="inspect-text", min_width=0):
                gr.HTML(inspected.legend(), js_on_load=None, elem_id="inspect-legend")
                only = gr.Radio([("All", ALL)], value=ALL, label="Passage", elem_id="inspect-only")
                text = gr.HTML(elem_id="inspect-passages", js_on_load=None)
            with gr.Column(elem_id="inspect-figures", min_width=0):
                with gr.Column(elem_classes="kv-panel kv-wide", min_width=0):
                    gr.HTML(_caption("Where the question looks, layer by layer", _MAP), js_on_load=None)
                    heat = _plot("inspect-map")
                with gr.Column(elem_classes="kv-panel kv-wide", min_width=0):
                    gr.HTML(_caption("Layers against the last layer", _KL, *_KL_KEYS), js_on_load=None)
                    kl = _plot("inspect-kl")
                with gr.Column(elem_classes="kv-panel", min_width=0):
                    gr.HTML(_caption("Agreement over the ratio", _AGREEMENT, *_AGREEMENT_KEYS), js_on_load=None)
                    agreement = _plot("inspect-agreement")
                with gr.Column(elem_classes="kv-panel", min_width=0):
                    gr.HTML(_caption("Small model against main model", _RANKS, *_RANKS_KEYS), js_on_load=None)
                    ranks = gr.HTML(elem_id="inspect-ranks", js_on_load=None)
    return Parts(
        question=question,
        inspect=inspect,
        stop=stop,
        where=where,
        passages=passages,
        progress=progress,
        empty=empty,
        found=found,
        only=only,
        text=text,
        method=method,
        ratio=ratio,
        summary=summary,
        apply=apply,
        halt=halt,
        answer=answer,
        map=heat,
        kl=kl,
        agreement=agreement,
        ranks=ranks,
    )


def _box() -> tuple[gr.Textbox, gr.Button, gr.Button, gr.Slider]:
    question = question_box("Question to inspect", "Which question do you want to look into?", "inspect-question")
    passages = passages_slider("inspect-count", None)
    return question, *go_and_stop("Inspect", "inspect-go", "inspect-stop"), passages


def _choice(methods: Sequence[MethodInfo]) -> tuple[gr.Dropdown, gr.Slider]:
    method, first = method_choice(methods, "inspect-method")
    return method, ratio_slider("inspect-ratio", _RATIO, first.has_ratio)


def _plot(name: str) -> gr.Plot:
    return gr.Plot(show_label=False, container=False, buttons=[], elem_id=name, elem_classes="kv-plot")


def _caption(title: str, sentence: str, *keys: tuple[str, str]) -> Markup:
    said = _HINTS[sentence]
    hint = tag("span", "?", class_="kv-hint", title=said, tabindex=0, role="note", aria_label=said)
    named = [tag("li", name, class_=f"kv-key kv-key-{colour}") for colour, name in keys]
    return tag(
        "header",
        tag("h3", title, " ", hint),
        tag("p", sentence),
        tag("ul", *named, class_="kv-keys", aria_label="Colours") if named else None,
        class_="kv-caption",
    )
