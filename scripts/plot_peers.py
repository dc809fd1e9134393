"""Draw the README's plot of docs/measured/peers-amx.json: `python -m scripts.plot_peers` (needs chromium)."""

import json
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from plotly.subplots import make_subplots

from assets import ASSETS

ROWS = ASSETS.parent / "docs" / "measured" / "peers-amx.json"
SIZE = {"width": 960, "height": 360}
LABELS = {"kvscope": "KVScope, full prefill", "kvscope 20%": "KVScope, 20 % recomputed"}
COLOURS = {"kvscope": "#0f766e", "kvscope 20%": "#45b3a6", "llama.cpp": "#d08a1d", "transformers": "#8b7bd8"}


def main() -> None:
    """Plot time to first token and decoding speed by prompt length, and save the picture."""
    rows = json.loads(ROWS.read_text(encoding="utf-8"))
    titles = ("Time to first token, seconds", "Decoding, tokens per second")
    figure = make_subplots(cols=2, subplot_titles=titles, horizontal_spacing=0.09)
    for peer, colour in COLOURS.items():
        own = [row for row in rows if row["peer"] == peer]
        lengths = [row["length"] for row in own]
        columns = [row["ttft_ms"] / 1e3 for row in own], [row["tokens_per_s"] for row in own]
        for number, values in enumerate(columns, start=1):
            if number == 1 or peer != "kvscope 20%":  # both decode by the same code
                figure.add_scatter(
                    x=lengths,
                    y=values,
                    name=LABELS.get(peer, peer),
                    mode="lines+markers",
                    line={"color": colour, "width": 2.5},
                    showlegend=number == 1,
                    col=number,
                    row=1,
                )
    lengths = sorted({row["length"] for row in rows})
    figure.update_xaxes(
        type="log", title="tokens of the prompt", tickvals=lengths, ticktext=[f"{n:,}" for n in lengths]
    )
    figure.update_yaxes(type="log", col=1, tickvals=[0.1, 1, 10, 60])
    figure.update_yaxes(rangemode="tozero", col=2)
    figure.update_layout(
        template="plotly_white",
        font={"family": "sans-serif", "size": 13},
        legend={"orientation": "h", "y": -0.28, "x": 0.5, "xanchor": "center"},
        margin={"l": 45, "r": 15, "t": 40, "b": 90},
        **SIZE,
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "plot.html"
        figure.write_html(page_file, include_plotlyjs=True, config={"displayModeBar": False})
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        page.goto(page_file.as_uri())
        page.locator(".main-svg").first.wait_for()
        page.add_style_tag(content="body { margin: 0; }")
        page.screenshot(path=ASSETS / "peers.png")
        browser.close()


if __name__ == "__main__":
    main()
