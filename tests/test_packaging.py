"""The wheel holds everything that the `kvscope` command needs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ["app.py", "pyproject.toml", "requirements.txt", "README.md", "LICENSE"]
PACKAGES = ["assets", "backend", "bench", "engine", "server", "store", "training", "ui"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy: building in the checkout would leave files there."""
    copy, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copy(ROOT / name, copy)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target, copy]
    subprocess.run(command, check=True)
    return next(target.glob("*.whl"))


@pytest.mark.slow
def test_the_installed_command_finds_its_modules_and_assets(wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (entry_points,) = site.glob("*.dist-info/entry_points.txt")
    assert "kvscope = app:main" in entry_points.read_text()
    environment = {**os.environ, "PYTHONPATH": str(site)}
    script = [sys.executable, "-c", "from app import main; main()", "--help"]
    result = subprocess.run(script, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert "--lora-adapter" in result.stdout
    installed = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "assets").rglob("*") if path.suffix != ".pyc"}
    assert {name for name in shipped if (ROOT / name).is_file()} <= installed
    assert not [name for name in installed if name.startswith(("tests/", "scripts/", "examples/"))]


@pytest.mark.slow
def test_a_fresh_installation_starts_and_answers(wheel, tmp_path):
    """Install with all dependencies into a new environment, start, and ask over HTTP."""
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    subprocess.run([environment / "bin" / "pip", "install", "-q", wheel], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [environment / "bin" / "kvscope", "--port", str(port), "--data", tmp_path / "data"]
    with (tmp_path / "log").open("w") as log:
        app = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for_answer("Lindqvist", f"http://127.0.0.1:{port}/v1/chat/completions", app, patience_s=300)
    finally:
        app.send_signal(signal.SIGTERM)
        app.wait(60)


def _wait_for_answer(expected, url, app, patience_s):
    """Ask until the answer is right: the sample documents are added one after the other."""
    question = {"role": "user", "content": "Who is the chief engineer of Harbour Line?"}
    body = json.dumps({"model": "kvscope", "messages": [question]}).encode()
    answer = ""
    for _ in range(patience_s):
        assert app.poll() is None
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            response = json.load(urllib.request.urlopen(request, timeout=120))
            answer = response["choices"][0]["message"]["content"]
            if expected in answer:
                return
        except OSError:  # not listening yet, or 503 while the models load
            pass
        time.sleep(1)
    raise AssertionError(f"the last answer is {answer!r}")
