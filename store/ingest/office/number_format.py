"""Values of spreadsheet cells as texts: dates as ISO 8601, numbers as their format displays them."""

import re
from datetime import date, datetime, time, timedelta

LITERALS = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|[_*].|\[[^\]]*\]')  # the groups are shown
NUMBER = re.compile(r"([^#0?]*)([#0?,]+)(?:\.([#0?]+))?(,*)([^#0?]*)")
MAX_FORMATTED = 1e15  # larger numbers are written with an exponent
MONTH = re.compile(r"(?:\[[^\]]*\])?[my][^dhs]*(?:;@)?", re.I)  # 'mmm-yy'


def display(value: object, number_format: str) -> str:
    """Return a cell's value as text; a number of an unusual format as it is."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _display_number(value, number_format)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + f":{seconds:02}" * bool(seconds)
    if isinstance(value, datetime):
        if value.time() == time():
            if MONTH.fullmatch(number_format):
                return value.strftime("%Y-%m" if "m" in number_format.lower() else "%Y")
            return value.date().isoformat()
        return value.isoformat(" ", "seconds" if value.second else "minutes")
    if isinstance(value, time):
        return value.isoformat("seconds" if value.second else "minutes")
    return value.isoformat() if isinstance(value, date) else str(value)


def _display_number(value: float, number_format: str) -> str:
    positive = number_format.split(";")[0]
    match = NUMBER.fullmatch(LITERALS.sub(lambda literal: "".join(filter(None, literal.groups())), positive))
    if not match or re.search("[eE/@]", LITERALS.sub("", positive)) or not abs(value) < MAX_FORMATTED:
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    before, whole, decimals, scale, after = match.groups(default="")
    digits = whole.rstrip(",")
    value /= 1000 ** (len(whole) - len(digits) + len(scale))  # each comma at the end divides by a thousand
    value *= 100 if "%" in before + after else 1
    text = f"{abs(value):{',' if ',' in digits else ''}.{len(decimals)}f}"
    if optional := len(decimals) - decimals.count("0"):
        text = text[:-optional] + text[-optional:].rstrip("0")
    text = text.rstrip(".").zfill(digits.count("0") if "," not in digits else 0)
    sign = "-" if value < 0 and text.strip("0.,") else ""
    return f"{sign}{before.lstrip()}{text}{after.rstrip()}"
