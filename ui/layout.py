"""The application frame: documents and status in the sidebar, one tab per page, and the theme."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from assets import ASSETS, page_script
from backend.interface.backend import Backend
from backend.interface.library import WatchedFolder
from backend.interface.limits import MAX_QUESTIONS
from store.limits import DEFAULT_LIMITS
from ui import gradio_api
from ui.blocks import Blocks
from ui.cancellation import CancelRoute
from ui.component_styles import component_styles
from ui.components.document_sidebar import DocumentSidebar
from ui.events import MAX_INGESTIONS, MODEL_QUEUE, Listeners, session_of
from ui.html import join, tag
from ui.pages.ask.history import LOAD_JS
from ui.pages.ask.page import Ask
from ui.pages.ask.passages import build_source_panel
from ui.pages.lab.page import Lab
from ui.pages.library.page import Library
from ui.pages.search import Search
from ui.pages.settings.page import Settings

MAX_SESSIONS = 500  # open tabs whose state is kept; the one not used for the longest time is forgotten first
_OTHER_THREADS = 40  # Gradio's default
_OPENS = {"data_opens": "kv-documents-open", "aria_expanded": "false", "aria_controls": "documents"}
_TOGGLE = tag("button", "Documents", type="button", id="documents-toggle", **_OPENS)  # for phones
_LOG_OUT = tag("form", tag("button", "Log out"), method="post", action="/logout")
_OPEN = tag("p", "No password: everyone who can connect can use and change this library.", class_="kv-warning")
# Shades from 50 to 950.
_TEAL = "#eefaf8 #d3f1ec #a9e3da #74cec2 #45b3a6 #1f978a #0f766e #0d5f59 #0e4c48 #0f3f3c #062523"
_GREY = "#f8f8f6 #f1f1ee #e4e4df #d2d2cc #a0a19c #70726f #565856 #3a3d3e #26292b #1a1d1f #121416"
_COLOURS = {  # in the light and in the dark theme
    "body_background_fill": ("*neutral_50", "*neutral_950"),
    "body_text_color": ("*neutral_900", "*neutral_100"),
    "body_text_color_subdued": ("*neutral_500", "*neutral_400"),
    "background_fill_primary": ("#ffffff", "*neutral_900"),
    "background_fill_secondary": ("*neutral_50", "*neutral_950"),
    "block_background_fill": ("#ffffff", "*neutral_900"),
    "block_label_text_color": ("*neutral_600", "*neutral_300"),
    "block_title_text_color": ("*neutral_800", "*neutral_200"),
    "input_background_fill": ("#ffffff", "*neutral_900"),
    "input_border_color": ("*neutral_300", "*neutral_700"),
    "input_placeholder_color": ("*neutral_500", "*neutral_400"),
    "slider_color": ("*primary_600", "*primary_400"),
    "button_primary_background_fill": ("*primary_600", "*primary_400"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_300"),
    "button_primary_border_color": ("*primary_600", "*primary_400"),
    "button_primary_text_color": ("#ffffff", "*neutral_950"),
    "button_secondary_background_fill": ("#ffffff", "*neutral_900"),
    "button_secondary_background_fill_hover": ("*neutral_100", "*neutral_800"),
    "button_secondary_border_color": ("*neutral_300", "*neutral_700"),
}


class App:
    """All pages on one backend.

    blocks         the Gradio app, ready for `launch(**launch_options())`
    samples        example questions for an empty page, each with the name of the document that answers it
    login          whether there is a login page, to which "Log out" leads
    is_open        whether everyone on other machines is let in, which the page says
    max_questions  that run at a time; further ones wait
    watched        returns the folders whose files are documents
    undo           undoes a change of such a folder, by its id
    """

    def __init__(
        self,
        backend: Backend,
        samples: Mapping[str, str] | None = None,
        login: bool = False,
        is_open: bool = False,
        max_questions: int = MAX_QUESTIONS,
        watched: Callable[[], Sequence[WatchedFolder]] = tuple,
        undo: Callable[[str], None] = lambda change: None,
    ) -> None:
        self.ask = Ask(backend, samples or {})
        self.lab = Lab(backend, samples or {})
        self.settings = Settings(backend)
        self.search = Search(backend)
        self.blocks = Blocks(title="KVScope", fill_width=True, analytics_enabled=False)
        with self.blocks:
            gradio_api.build(backend)  # first, so that no page event takes one of its endpoint names
            with gr.Row(elem_id="shell", equal_height=False):
                with gr.Column(elem_id="side", min_width=0):
                    brand = tag("header", tag("h1", "KVScope"), _LOG_OUT if login else None, _TOGGLE)
                    gr.HTML(join(brand, _OPEN if is_open else None), elem_id="brand", js_on_load=None)
                    self.documents = DocumentSidebar(backend)
                self.library = Library(backend, self.documents, self.search, watched, undo)
                with gr.Column(elem_id="pages-column", min_width=0):
                    with gr.Tabs(elem_id="pages") as tabs:
                        self._build_pages()
                    answer = self.ask.results
                    build_source_panel(backend, tabs, answer.thread, answer.reply, self.search.results)
            self._connect(tabs)
        for event in self.blocks.fns.values():
            if event.concurrency_id == MODEL_QUEUE["concurrency_id"]:
                event.concurrency_limit = max_questions

    def close_session(self, request: gr.Request) -> None:
        """Cancel everything a session has running, because its tab was closed.

        Gradio keeps a closed session for an hour, for a tab that comes back, and up to MAX_SESSIONS for longer. What
        it keeps for deep links, a copy of every component, is dropped now: the page has none.
        """
        for runner in (self.ask, self.ask.demonstration, self.lab.inspect, self.lab.compare, self.settings):
            runner.tasks.discard(session_of(request))
        self.documents.uploads.cancel(request)
        self.library.uploads.cancel(request)
        if kept := self.blocks.state_holder.session_data.get(session_of(request)):
            kept.config_values.clear()

    def _build_pages(self) -> None:
        pages = {
            "Ask": self.ask.build,
            "Lab": self.lab.build,
            "Library": self.library.build,
            "Settings": self.settings.build,
        }
        for label, build in pages.items():
            with gr.Tab(label, id=label.lower(), elem_id=f"tab-{label.lower()}") as tab:
                build(tab)

    def _connect(self, tabs: gr.Tabs) -> None:
        """Connect events between the pages and the sidebar."""
        document_list, documents_changed, page_loaded = self.documents.document_list, Listeners(), Listeners()
        self.ask.wire(page_loaded, document_list, documents_changed)
        self.ask.link_save(self.documents.uploads, document_list)
        self.lab.follow(documents_changed)
        self.ask.link_to_lab("expand", tabs, self.lab, "inspect", "#inspect-go")
        self.ask.link_to_lab("apply", tabs, self.lab, "compare", "#compare-run")
        self.search.follow(documents_changed)
        self.documents.follow(page_loaded)
        page_loaded.connect(self.blocks.load, js=LOAD_JS)
        documents_changed.connect(document_list.change)
        self.search.link_to_ask(tabs, self.ask.composer)
        self.library.link_to_ask(tabs, self.ask.composer)
        self.blocks.unload(self.close_session)


def launch_options(
    app_kwargs: Mapping[str, Any] | None = None,
    max_file_bytes: int = DEFAULT_LIMITS.max_file_bytes,
    page: gr.Blocks | None = None,
) -> dict[str, Any]:
    """Return the arguments of `launch` except host and port: theme, styles, scripts, no telemetry.

    app_kwargs      those of `server.routes.app_kwargs`
    max_file_bytes  larger files are refused before they are uploaded
    page            whose components have their styles in the page
    """
    styles = sorted((ASSETS / "styles").glob("*.css"), key=lambda path: (path.name != "base.css", path))
    app_kwargs = app_kwargs or {}
    return {
        "app_kwargs": {**app_kwargs, "middleware": [*app_kwargs.get("middleware", ()), Middleware(CancelRoute)]},
        "state_session_capacity": MAX_SESSIONS,
        "max_threads": _OTHER_THREADS + MAX_INGESTIONS,
        "theme": _theme(),
        "css_paths": styles,
        "head": f"<script>{page_script()}</script>{component_styles(page) if page else ''}",
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "share": False,
        "enable_monitoring": False,
        "mcp_server": False,  # KVScope has its own: `server.mcp`
        "num_workers": 0,  # their ports would be without our middleware
        "max_file_size": max_file_bytes,
    }


def _theme() -> gr.themes.Base:
    """Return a theme with system fonts (nothing is downloaded), neutral greys and one accent colour."""
    colours = {name: light for name, (light, _) in _COLOURS.items()}
    colours |= {f"{name}_dark": dark for name, (_, dark) in _COLOURS.items()}
    return gr.themes.Base(
        primary_hue=gr.themes.Color(*_TEAL.split()),
        secondary_hue=gr.themes.Color(*_TEAL.split()),
        neutral_hue=gr.themes.Color(*_GREY.split()),
        radius_size="lg",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Consolas", "DejaVu Sans Mono", "monospace"],
    ).set(
        block_border_width="0px",
        block_title_text_size="*text_sm",
        block_title_text_weight="600",
        block_info_text_size="*text_xs",
        input_border_width="1px",
        **colours,
    )
