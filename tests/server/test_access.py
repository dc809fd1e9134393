"""Which starts are refused, and what is read from a password file and the keys."""

import subprocess
import sys

import pytest

from app import main
from backend.runtime.settings import Settings
from server.access import KEYS_VARIABLE, BadAccess, read_access
from store.ingest.isolated import INHERITED
from tests.server.conftest import QUICK
from tests.support.fake_backend.backend import FakeBackend
from ui.layout import App

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _data(monkeypatch, tmp_path):
    monkeypatch.setenv("KVSCOPE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("argon2.PasswordHasher", lambda: QUICK)


@pytest.fixture
def write(tmp_path):
    def write_password(content, mode=0o600):
        path = tmp_path / "password"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    return write_password


def access(keys="", **settings):
    return read_access(Settings(**settings), {KEYS_VARIABLE: keys})


def test_a_key_that_no_header_can_hold_is_refused():
    with pytest.raises(BadAccess, match="not ASCII"):
        read_access(Settings(), {KEYS_VARIABLE: "schl\u00fcssel-0123456789"})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.0.0.2"])
def test_on_loopback_nothing_is_required_and_nothing_is_limited(host):
    local = access(host=host)
    assert local.credentials is None and local.limits is None and not local.is_open


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "nas.lan", "127.1", "", "localhost.evil.example"])
def test_any_other_host_requires_a_password_or_a_key(host, write):
    with pytest.raises(BadAccess, match="--password-file FILE or set KVSCOPE_API_KEYS; --no-auth"):
        access(host=host)
    assert access(host=host, password_file=write("a password")).credentials.accepts("a password")
    assert access(host=host, keys=KEY).credentials.has_key(KEY)
    opened = access(host=host, auth=False)
    assert opened.is_open and opened.credentials is None and opened.limits


def test_a_proxy_in_front_of_loopback_requires_a_password_too(write):
    with pytest.raises(BadAccess, match="--public-name"):
        access(public_name="kvscope.example.org")
    assert access(public_name="kvscope.example.org", password_file=write("a password")).public_name


def test_a_password_or_key_counts_on_loopback_too_and_contradicts_no_auth(write):
    assert access(keys=KEY).credentials and access(password_file=write("a password")).limits
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(BadAccess, match="contradicts"):
            access(host=host, keys=KEY, auth=False)


@pytest.mark.parametrize(
    "content, mode, message",
    [
        ("", 0o600, "fewer than 8 characters"),
        ("\nlong enough", 0o600, "fewer than 8 characters"),
        ("1234567\r\nlong enough", 0o600, "fewer than 8 characters"),
        ("long enough", 0o640, "Other users can read.*chmod 600"),
        ("long enough", 0o604, "Other users can read.*chmod 600"),
        (b"long \xff enough", 0o600, "UTF-8"),
        ("$argon2id$v=19$m=65536", 0o600, "complete argon2 hash"),
    ],
)
def test_a_password_file_that_cannot_be_used_is_refused(write, content, mode, message):
    with pytest.raises(BadAccess, match=message):
        access(password_file=write(content, mode))


def test_a_missing_password_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(BadAccess, match="cannot be read"):
            access(password_file=path)


@pytest.mark.parametrize("end", ["", "\n", "\r\nsecond line"])
def test_the_first_line_is_the_password_or_its_hash(write, end):
    password = " pässwörd with spaces "
    hashed = QUICK.hash(password)
    for line in (password, "\ufeff" + password, hashed):
        credentials = access(password_file=write(line + end)).credentials
        assert credentials.accepts(password) and not credentials.accepts(password.strip())
        assert not credentials.accepts(hashed)


def test_keys_are_separated_by_commas_and_leave_the_environment():
    environment = {KEYS_VARIABLE: f" {KEY},{KEY[::-1]} ,"}
    credentials = read_access(Settings(), environment).credentials
    assert environment == {} and credentials.has_key(KEY) and credentials.has_key(KEY[::-1])
    assert not credentials.has_key("") and not credentials.has_key(f"{KEY},{KEY[::-1]}")
    assert KEYS_VARIABLE not in INHERITED  # by the process that reads files
    with pytest.raises(BadAccess, match="fewer than 16") as refused:
        access(keys=f"{KEY},secret")
    assert "secret" not in str(refused.value)


def test_secrets_are_in_no_representation(write):
    text = repr(access(keys=KEY, password_file=write("a password")))
    assert KEY not in text and "a password" not in text and "argon2" not in text


def test_the_app_refuses_to_start_and_says_why(monkeypatch, caplog):
    monkeypatch.setattr("sys.argv", ["app.py", "--host", "0.0.0.0"])
    assert main() == 1
    assert "--host 0.0.0.0 lets other machines use KVScope" in caplog.text and "--no-auth" in caplog.text


def test_without_a_password_the_log_and_the_page_warn(caplog):
    assert access(host="0.0.0.0", auth=False).is_open
    assert "everyone who can connect" in caplog.text
    for is_open in (True, False):
        blocks = App(FakeBackend(), is_open=is_open).blocks.blocks.values()
        (brand,) = (block.value for block in blocks if block.elem_id == "brand")
        assert ("everyone who can connect" in brand) is is_open


def test_a_start_without_a_password_does_not_import_argon2():
    code = "import sys, app; app.read_access(app.Settings()); print(*{'argon2', 'starlette'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
