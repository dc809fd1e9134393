"""The components of the Inspect page and their layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from backend.interface.backend import Backend
from engine.method import MethodInfo
from ui.components.document_picker import DocumentPicker
from ui.components.inputs import method_choice, passages_slider, question_box, ratio_slider, run_and_stop_buttons
from ui.html import Markup, tag
from ui.pages.inspect.view import render_legend

ALL_PASSAGES = 0  # value of the passage choice
_RATIO_INFO = "Updates instantly from stored scores; no model runs."
_INTRO = (
    "See which tokens the models attend to for a question, and which tokens each method recomputes at every ratio. "
    "Type a question above and press Inspect: after one full prefill of the passages, the slider responds instantly."
)


@dataclass(frozen=True, slots=True)
class FigureCaption:
    """Title, one-sentence description, tooltip, and colour keys of a figure."""

    title: str
    description: str
    tooltip: str
    keys: tuple[tuple[str, str], ...] = ()

    def render(self) -> Markup:
        hint = tag("span", "?", class_="kv-hint", title=self.tooltip, tabindex=0, role="note", aria_label=self.tooltip)
        keys = [tag("li", name, class_=f"kv-key kv-key-{colour}") for colour, name in self.keys]
        return tag(
            "header",
            tag("h3", self.title, " ", hint),
            tag("p", self.description),
            tag("ul", *keys, class_="kv-keys", aria_label="Colours") if keys else None,
            class_="kv-caption",
        )


_MAP = FigureCaption(
    "Attention from the question, by layer",
    "Each row is a layer of the main model, each column a position in the passages; "
    "stronger colour means more attention from the question.",
    "Attention of the question's tokens in a full prefill, averaged over heads, relative to the average of its row. "
    "The shared prefix is left out. The top row is the auxiliary model, which sees each passage alone.",
)
_KL = FigureCaption(
    "Difference from the last layer",
    "How much each layer's attention differs from the last layer's: 0 is identical.",
    "Kullback-Leibler divergence KL(last layer || layer), in nats, without the prefix and the passages' sinks, which "
    "would dominate it. The dashed line is the auxiliary model's last layer: where it is below a bar, the auxiliary "
    "model predicts the last layer better than that layer does.",
    (("green", "layer of the main model"), ("violet", "auxiliary model")),
)
_AGREEMENT = FigureCaption(
    "Agreement by recompute ratio",
    "Of the tokens that either side selects, the share that both select: 1 is full agreement.",
    "Jaccard similarity, sinks left out. Amber: the chosen method against as many tokens of the oracle, which uses the "
    "main model's own attention. Violet: most attended tokens of the auxiliary model against those of the main model's "
    "last layer. Grey: the other methods; dotted: chance.",
    (("orange", "chosen method"), ("violet", "auxiliary model"), ("grey", "other methods")),
)
_RANKS = FigureCaption(
    "Auxiliary model vs. main model",
    "Each dot is a window of 8 tokens; near the diagonal, both models rank its attention alike.",
    "Windows ranked by mean attention: the auxiliary model on the x-axis, the main model's last layer on the y-axis. "
    "Amber dots are recomputed. Spearman's rank correlation is 1 for the same order, 0 for none.",
    (("orange", "recomputed"), ("grey", "reused")),
)


@dataclass(frozen=True, slots=True)
class InspectComponents:
    """The components that events read and update."""

    question: gr.Textbox
    inspect: gr.Button
    stop: gr.Button
    documents: DocumentPicker
    passages: gr.Slider
    progress: gr.HTML
    intro: gr.HTML
    results: gr.Column
    passage_choice: gr.Radio
    text: gr.HTML
    method: gr.Dropdown
    ratio: gr.Slider
    summary: gr.HTML
    ask: gr.Button
    stop_answer: gr.Button
    answer: gr.HTML
    attention_map: gr.Plot
    kl: gr.Plot
    agreement: gr.Plot
    rank_scatter: gr.HTML


def build(methods: Sequence[MethodInfo], backend: Backend) -> InspectComponents:
    """Create the components inside the open tab."""
    with gr.Column(elem_id="inspect-page", elem_classes="kv-page", min_width=0):
        with gr.Row(elem_id="inspect-box", equal_height=False):
            question = question_box("Question to inspect", "Which question do you want to inspect?", "inspect-question")
            inspect, stop = run_and_stop_buttons("Inspect", "inspect-go", "inspect-stop")
            passages = passages_slider("inspect-count", None)
            documents = DocumentPicker(backend, "inspect-where")
        progress = gr.HTML(elem_id="inspect-progress", js_on_load=None)
        intro = gr.HTML(tag("p", _INTRO, class_="kv-lede"), elem_id="inspect-empty", js_on_load=None)
        with gr.Column(elem_id="inspect-found", min_width=0, visible=False) as results:
            with gr.Column(elem_id="inspect-choice", min_width=0):
                method, default = method_choice(methods, "inspect-method")
                ratio = ratio_slider("inspect-ratio", _RATIO_INFO, default.has_ratio)
                summary = gr.HTML(elem_id="inspect-summary", js_on_load=None)
                with gr.Row(elem_id="inspect-apply-row"):
                    ask = gr.Button("Ask with these settings", variant="primary", elem_id="inspect-apply")
                    stop_answer = gr.Button("Stop", variant="stop", visible=False, elem_id="inspect-halt")
                answer = gr.HTML(elem_id="inspect-answer", js_on_load=None)
            with gr.Column(elem_id="inspect-text", min_width=0):
                gr.HTML(render_legend(), js_on_load=None, elem_id="inspect-legend")
                passage_choice = gr.Radio(
                    [("All", ALL_PASSAGES)], value=ALL_PASSAGES, label="Passage", elem_id="inspect-only"
                )
                text = gr.HTML(elem_id="inspect-passages", js_on_load=None)
            with gr.Column(elem_id="inspect-figures", min_width=0):
                attention_map = _plot_panel(_MAP, "inspect-map", wide=True)
                kl = _plot_panel(_KL, "inspect-kl", wide=True)
                agreement = _plot_panel(_AGREEMENT, "inspect-agreement")
                with gr.Column(elem_classes="kv-panel", min_width=0):
                    gr.HTML(_RANKS.render(), js_on_load=None)
                    rank_scatter = gr.HTML(elem_id="inspect-ranks", js_on_load=None)
    return InspectComponents(
        question=question,
        inspect=inspect,
        stop=stop,
        documents=documents,
        passages=passages,
        progress=progress,
        intro=intro,
        results=results,
        passage_choice=passage_choice,
        text=text,
        method=method,
        ratio=ratio,
        summary=summary,
        ask=ask,
        stop_answer=stop_answer,
        answer=answer,
        attention_map=attention_map,
        kl=kl,
        agreement=agreement,
        rank_scatter=rank_scatter,
    )


def _plot_panel(caption: FigureCaption, elem_id: str, wide: bool = False) -> gr.Plot:
    with gr.Column(elem_classes=f"kv-panel{' kv-wide' if wide else ''}", min_width=0):
        gr.HTML(caption.render(), js_on_load=None)
        return gr.Plot(show_label=False, container=False, buttons=[], elem_id=elem_id, elem_classes="kv-plot")
