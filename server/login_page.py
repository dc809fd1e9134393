"""The page that asks for the password. It needs no script and nothing else from the server."""

from html import escape

from server.translations import translate

_PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>{log_in} · KVScope</title>
<style>
  :root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
  body {{ display: grid; place-content: center; min-height: 90vh; margin: 0 1.5rem; }}
  form {{ display: grid; gap: .75rem; width: 18rem; max-width: 100%; }}
  h1 {{ margin: 0; font-size: 1.5rem; }}
  p {{ margin: 0; color: light-dark(#b42318, #ff9d92); }}
  input, button {{ font: inherit; padding: .5rem .75rem; border: 1px solid #8888; border-radius: .5rem; }}
  button {{ background: #0f766e; color: #fff; border-color: #0f766e; cursor: pointer; }}
</style>
<main>
  <form method="post" action="/login">
    <h1>KVScope</h1>
    <label for="password">{password}</label>
    <input id="password" name="password" type="password" autocomplete="current-password" required autofocus>
    <button>{log_in}</button>
    {message}
  </form>
</main>
</html>
"""


def login_page(message: str = "", language: str = "en") -> str:
    """Return the page as HTML in a language, with a message about the last attempt."""
    log_in, password, message = (
        escape(translate(text, language)) for text in ("Log in", "Password or API key", message)
    )
    return _PAGE.format(
        language=language,
        log_in=log_in,
        password=password,
        message=f'<p role="alert">{message}</p>' if message else "",
    )
