"""The API's OpenAPI schema as one HTML page, which loads nothing from other servers."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8884; padding: .3rem .6rem; text-align: left; vertical-align: top }
:root { color-scheme: light dark }
"""


def docs_page(schema: Mapping[str, Any]) -> str:
    """Return the HTML page for an OpenAPI schema with JSON bodies."""
    title = f"{escape(schema['info']['title'])} API"
    server = schema["servers"][0]["url"]
    parts = [f"<h1>{title}</h1><p>{escape(schema['info']['summary'])}</p>"]
    parts.append('<p>This page as a schema: <a href="openapi.json">openapi.json</a></p>')
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts.append(f"<h2><code>{method.upper()} {escape(server + path)}</code></h2>")
            parts.append(f"<p>{escape(operation.get('description', operation['summary']))}</p>")
            for content in operation.get("requestBody", {}).get("content", {}).values():
                parts.append(f"<p>Body: {_type(content['schema'])}</p>")
    for name, model in schema["components"]["schemas"].items():
        parts += [f'<h3 id="{escape(name)}"><code>{escape(name)}</code></h3>', *_fields(model)]
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en">{head}{"".join(parts)}</html>'


def _fields(model: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{escape(model.get('description', ''))}</p><table><tr><th>Field<th>Type<th>Default<th>Description</tr>"
    for name, field in model.get("properties", {}).items():
        default = json.dumps(field["default"]) if "default" in field else ""
        if name in model.get("required", ()):
            default = "required"
        cells = (f"<code>{escape(name)}</code>", _type(field), escape(default), escape(field.get("description", "")))
        yield f"<tr><td>{'<td>'.join(cells)}</tr>"
    yield "</table>"


def _type(field: Mapping[str, Any]) -> str:
    """Return a type as HTML, linked to its table if it is an object of its own."""
    if "$ref" in field:
        name = escape(field["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"])
    if field.get("type") == "array":
        return f"array of {_type(field['items'])}"
    return escape(field.get("type", "any"))
