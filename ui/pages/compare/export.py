"""A comparison as a file: CSV for spreadsheets, JSON for programs."""

import csv
import json
from pathlib import Path
from typing import Any

from engine.analysis.comparison import Comparison, Outcome

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets run text that starts with these


def write_csv(comparison: Comparison, path: Path) -> Path:
    """Write one row per outcome: times in ms, KL in nats, sizes in bytes."""
    rows = [_row(comparison, outcome) for outcome in comparison.outcomes]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else ["question"])
        writer.writeheader()
        writer.writerows({name: escape_formula(value) for name, value in row.items()} for row in rows)
    return path


def write_json(comparison: Comparison, path: Path) -> Path:
    """Write the whole comparison with all stages and measurements."""
    path.write_text(json.dumps(comparison.as_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
    return path


def escape_formula(value: Any) -> Any:
    """Return a text so that spreadsheets show it instead of running it; other values unchanged."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS) else value


def _row(comparison: Comparison, outcome: Outcome) -> dict[str, Any]:
    return {
        "question": comparison.request.question,
        "model": comparison.model,
        "method": outcome.method,
        "ratio": outcome.ratio,
        "realised_ratio": outcome.actual_ratio,
        "ttft_ms": outcome.ttft_ms,
        "n": len(outcome.ttfts_ms),
        "rt": outcome.relative_ttft,
        "floor_ms": outcome.ideal_ms,
        "search_ms": comparison.search_ms,
        "kl": outcome.kl,
        "top1": int(outcome.top1),
        "answer_kl": outcome.answer_kl,
        "answer_top1": outcome.answer_top1,
        "context_tokens": comparison.context_tokens,
        "recomputed_tokens": outcome.recomputed_tokens,
        "reused_bytes": outcome.reused_bytes,
        "read_bytes": sum(outcome.read_bytes.values()),
        "read_from": " ".join(f"{tier}:{size}" for tier, size in outcome.read_bytes.items()),
        "answer": outcome.answer,
    }
