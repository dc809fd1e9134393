"""A comparison as a file: CSV for spreadsheets, JSON for programs."""

import csv
import json
from pathlib import Path
from typing import Any

from engine.analysis.comparison import Comparison

_COLUMNS = (
    *("question", "model", "method", "ratio", "realised_ratio", "ttft_ms", "n", "rt", "floor_ms", "search_ms"),
    *("kl", "top1", "answer_kl", "answer_top1", "context_tokens", "recomputed_tokens", "reused_bytes", "read_bytes"),
    *("read_from", "answer"),
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets run text that starts with these


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write one row per outcome: times in ms, KL in nats, sizes in bytes."""
    shared = comparison.as_dict()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for outcome in shared["outcomes"]:
            read_bytes = outcome["read_bytes"]
            row = {
                **shared,
                **outcome,
                "top1": int(outcome["top1"]),
                "read_bytes": sum(read_bytes.values()),
                "read_from": " ".join(f"{tier}:{size}" for tier, size in read_bytes.items()),
            }
            writer.writerow({name: escape_formula(value) for name, value in row.items()})
    return path


def write_json(comparison: Comparison, path: Path) -> Path:
    """Write the whole comparison with all stages and measurements."""
    path.write_text(json.dumps(comparison.as_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
    return path


def escape_formula(value: Any) -> Any:
    """Return a text so that spreadsheets show it instead of running it; other values unchanged."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS) else value
