"""Settings from command-line flags, KVSCOPE_* environment variables, saved preferences and defaults, in this order.

Flags, variables and preferences of earlier versions keep working (see ALIASES).
"""

import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import (
    AliasChoices,
    AliasGenerator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, CliApp, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from backend.interface.errors import BadSettings
from backend.interface.limits import MAX_QUESTIONS
from backend.interface.models import SettingsChange
from backend.runtime.secrets import ANSWER_SERVER_KEY, KV_SERVER_PASSWORD, LIBRARY_KEY
from engine.model.loading.presets import BUNDLED_MODEL
from store.data_folder import default_data_folder
from store.limits import DEFAULT_LIMITS, Limits
from store.preferences import Preferences

MUTABLE_SETTINGS = tuple(field.name for field in fields(SettingsChange))  # saved in the data folder
LIBRARY_SETTINGS = ("chunk_size", "chunk_overlap", "embedding_model", "reranker")  # of the library server, if any
HTTP_SERVERS = {  # an example of the address, and the variable of the key
    "answer_server": ("http://127.0.0.1:11434/v1", ANSWER_SERVER_KEY),
    "library": ("http://127.0.0.1:7870", LIBRARY_KEY),
    "chroma": ("http://127.0.0.1:8000", ""),
}
CHUNKING = ("chunk_size", "chunk_overlap")
ALIASES = {  # names of version 0.1 that keep working, and --data-dir, by current name
    "data": "data_dir",
    "lora_adapter": "reader",
    "span_scorer": "pointer",
    "auxiliary_model": "auxiliary",
    "token_selector": "selector",
    "gpu_cache_gib": "device_gib",
    "cpu_cache_gib": "host_gib",
    "disk_cache_gib": "disk_gib",
    "disk_kv_bits": "kv_bits",
    "eviction_policy": "policy",
    "chunk_size": "chunk_tokens",
    "sample_docs": "samples",
    "import_file": "import",
    "export_file": "export",
}
log = logging.getLogger("kvscope")


def all_names(name: str) -> AliasChoices:
    """Return the names of a setting, the current one first."""
    return AliasChoices(name, *[ALIASES[name]] if name in ALIASES else [])


class Settings(BaseSettings):
    """KVScope: question answering over your own documents, on your own machine."""  # shown by --help

    model_config = SettingsConfigDict(
        env_prefix="KVSCOPE_",
        env_prefix_target="all",
        alias_generator=AliasGenerator(validation_alias=all_names),
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        use_attribute_docstrings=True,
    )

    data: Path = Field(default_factory=default_data_folder)
    """folder for documents, search index, chunk KV and models"""
    host: str = "127.0.0.1"
    """address to listen on; with any but loopback, other machines can connect, and a password or key is required"""
    port: int = Field(7860, ge=1, le=65535)
    """port to listen on"""
    public_name: str = ""
    """host name of a reverse proxy in front of KVScope, such as kvscope.example.org; requires a password or key"""
    password_file: Path | None = None
    """file with the password of the page, as text of 8 characters or more, or its argon2 hash; readable by you only"""
    auth: bool = True
    """require a password or key if other machines can connect; with --no-auth, everyone who can connect is let in"""
    client_requests: int = Field(1200, ge=1)
    """requests per minute from each client, if other machines can connect or there is a password or key"""
    client_questions: int = Field(4, ge=1)
    """questions, inspections and comparisons of each client at a time, likewise"""
    client_uploads: int = Field(200, ge=1)
    """uploads per hour from each client, likewise"""
    client_upload_mib: int = Field(1024, ge=1)
    """MiB of uploads per hour from each client, likewise"""
    model: str = BUNDLED_MODEL
    """main model: a folder, or a name on the Hugging Face hub"""
    lora_adapter: str = "auto"
    """LoRA adapter of the main model: auto (the bundled one), plain (trained without reused KV), off, or a folder"""
    span_scorer: str = "auto"
    """span scorer, which finds likely answers in the passages: auto (the bundled one), off, or a folder"""
    auxiliary_model: str = BUNDLED_MODEL
    """small model whose attention selects the tokens to recompute; runs on the CPU"""
    token_selector: str = "auto"
    """token selector of the method cacheclip-trained: auto (the bundled one), off, or a folder"""
    embedding_model: str = "auto"
    """model that searches by meaning: auto (finetuned all-MiniLM-L6-v2, English), a folder, or a name on the hub"""
    reranker: str = "off"
    """cross-encoder that reranks retrieved passages: off, a folder, or a name on the hub"""
    device: str = "auto"
    """device of the main model: auto, cpu, cuda or cuda:1"""
    dtype: Literal["auto", "bf16", "fp32"] = "auto"
    """compute dtype; auto is bf16 if the hardware supports it, else fp32"""
    attention: Literal["auto", "torch"] = "auto"
    """attention on the CPU: auto (KVScope's kernels, compiled at the first start, where they are faster) or torch"""
    decode_weights: Literal["auto", "int8", "bf16"] = "auto"
    """weights that KVScope's kernel decodes with: bf16, int8 (half as much to read), auto: int8 if it fits"""
    gpu_cache_gib: float = Field(2.0, ge=0, allow_inf_nan=False)
    """GPU memory for chunk KV in GiB, if the main model runs on a GPU"""
    cpu_cache_gib: float = Field(1.5, ge=0, allow_inf_nan=False)
    """RAM for chunk KV in GiB"""
    disk_cache_gib: float = Field(8.0, ge=0, allow_inf_nan=False)
    """disk space for chunk KV in GiB"""
    disk_kv_bits: Literal[8, 16] = 16
    """precision of chunk KV on disk; 8 halves the size and is lossy"""
    cluster: str = ""
    """Ray cluster whose engines answer questions, and which this machine belongs to: auto, or the head's host:6379;
    see python -m cluster"""
    library: str = ""
    """library server that has the documents of several KVScope instances, such as http://10.0.0.5:7870, see
    python -m cluster; its key is read from KVSCOPE_LIBRARY_KEY"""
    chroma: str = ""
    """Chroma server for the vectors of the documents, such as http://10.0.0.5:8000; default: in the data folder"""
    kv_server: str = ""
    """Valkey or Redis that shares chunk KV with other KVScope instances, such as redis://10.0.0.5:6379/0, or rediss://
    for TLS; its password, if it has one, is read from KVSCOPE_KV_SERVER_PASSWORD; needs requirements-cluster.txt"""
    kv_server_bits: Literal[8, 16] = 16
    """precision of chunk KV on that server; 8 halves the size and is lossy"""
    eviction_policy: Literal["pgdsf", "gdsf", "lru", "lfu"] = "pgdsf"
    """which chunk KV to evict first when a tier is full"""
    chunk_size: int = Field(512, ge=16, le=4096)
    """maximum tokens per chunk (the CacheClip paper: 1000)"""
    chunk_overlap: int = Field(50, ge=0)
    """maximum tokens shared by neighbouring chunks"""
    answer_server: str = ""
    """OpenAI-compatible API whose model answers by default, such as http://127.0.0.1:11434/v1 of Ollama; it is sent
    each question and the passages found for it. Its key, if it needs one, is read from KVSCOPE_ANSWER_SERVER_KEY"""
    answer_server_model: str = ""
    """name of the model on that server"""
    answer_server_context: int = Field(4096, ge=512, le=10_000_000)
    """tokens that this model reads and writes for a question, at most"""
    web_pages: bool | None = None
    """let users add web pages from public addresses; default: if no other machine can connect, and without password"""
    watch: list[Path] = []
    """folder whose files are added as documents, now and whenever they change; can be given several times, and
    KVSCOPE_WATCH can name several as PATH does"""
    ingest_timeout_minutes: float = Field(60.0, gt=0)
    """minutes after which a document that is still being added or re-indexed is given up; inf for no limit"""
    max_file_mib: int = Field(DEFAULT_LIMITS.max_file_mib, ge=1, le=512)
    """size of a file in MiB"""
    max_pages: int = Field(DEFAULT_LIMITS.max_pages, ge=1, le=100_000)
    """pages of a PDF, slides of a presentation"""
    max_ocr_pages: int = Field(DEFAULT_LIMITS.max_ocr_pages, ge=0, le=10_000)
    """scanned pages of a PDF whose text is recognized; later ones are left out, with a warning"""
    max_picture_pages: int = Field(DEFAULT_LIMITS.max_picture_pages, ge=1, le=10_000)
    """pages of a picture file"""
    max_characters: int = Field(DEFAULT_LIMITS.max_characters, ge=1000, le=50_000_000)
    """characters of a document's text, and of an HTML file's source"""
    max_documents: int = Field(DEFAULT_LIMITS.max_documents, ge=1, le=1_000_000)
    """documents in the library"""
    max_questions: int = Field(MAX_QUESTIONS, ge=1, le=32)
    """questions, inspections and comparisons at a time from the page and the Gradio API, and as many from /v1"""
    audit: bool = True
    """keep a log of who changed documents, settings and cache, exported or imported the library, or logged in or out"""
    mcp: bool = False
    """serve MCP on stdin and stdout instead of the page, for a client that starts KVScope by itself"""
    clear_cache: bool = False
    """delete all chunk KV, report its size, and exit"""
    export_file: Path | None = None
    """write documents and settings to this zip file, and exit; KVScope may be running"""
    import_file: Path | None = None
    """add the documents of such a file to the data folder, and exit"""
    check: bool = False
    """look for damage in the data folder, report it, and exit"""
    repair: bool = False
    """repair the data folder, report what was damaged, and exit; the next start computes the rest again"""
    idle_calibration: bool = True
    """measure in idle time how close answers with reused KV are to full prefill's, once for each model"""
    sample_docs: bool = True
    """add three sample documents at the first start"""
    open_browser: bool = False
    """open the UI in the default browser"""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSettings(" ".join(map(_describe, error.errors()))) from error

    @field_validator("data", "password_file")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return path and path.expanduser().absolute()  # shells do not expand ~ in --data=~/kvscope

    @field_validator("watch")
    @classmethod
    def _folders(cls, paths: list[Path]) -> list[Path]:
        return [path.expanduser().absolute() for path in paths]

    @field_validator("disk_kv_bits", "kv_server_bits", mode="before")
    @classmethod
    def _parse_bits(cls, bits: Any) -> Any:
        return int(bits) if bits in ("8", "16") else bits  # an environment variable is a string

    @model_validator(mode="after")
    def _check_overlap(self) -> "Settings":
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError(f"--chunk-overlap {self.chunk_overlap} must be below --chunk-size {self.chunk_size}")
        return self

    @field_validator("answer_server", "library", "chroma")
    @classmethod
    def _address(cls, url: str, info: ValidationInfo) -> str:
        example, key = HTTP_SERVERS[info.field_name or ""]
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError for a wrong one
        if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
            raise ValueError(f"{url!r} is not an address such as {example}")
        if info.field_name == "chroma" and parts.path.strip("/"):
            raise ValueError("leave the path out of the address")
        if parts.username or parts.password:
            raise ValueError("leave the user and the password out of the address" + f"; set {key}" * bool(key))
        return url.rstrip("/")

    @field_validator("kv_server")
    @classmethod
    def _kv_address(cls, url: str) -> str:
        parts = urlsplit(url)
        try:
            is_address = parts.scheme in ("redis", "rediss") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:  # its message could contain a part of a password
            is_address = False
        if url and not is_address:
            raise ValueError("this is not an address such as redis://127.0.0.1:6379/0")
        if any(not name.startswith("ssl_") for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
            raise ValueError("options after ? are those of TLS only, such as ssl_ca_certs")
        if parts.password:
            raise ValueError(f"leave the password out of the address; set {KV_SERVER_PASSWORD}")
        if url and find_spec("redis") is None:
            raise ValueError("a KV server needs redis-py: pip install -r requirements-cluster.txt")
        return url

    @field_validator("cluster")
    @classmethod
    def _ray_address(cls, address: str) -> str:
        if address.startswith("ray://"):
            raise ValueError("Ray's client cannot stream answers. Run ray start --address=HOST:6379 here, and use auto")
        if address and address != "auto" and not urlsplit(f"//{address}").port:
            raise ValueError("this is neither auto nor an address such as 10.0.0.5:6379")
        if address and find_spec("ray") is None:
            raise ValueError("a cluster needs Ray: pip install -r requirements-cluster.txt")
        return address

    @model_validator(mode="after")
    def _check_answer_server(self) -> "Settings":
        if bool(self.answer_server) != bool(self.answer_server_model):
            raise ValueError("--answer-server and --answer-server-model need each other")
        return self

    @model_validator(mode="after")
    def _check_watched(self) -> "Settings":
        data = self.data.resolve()
        for folder in self.watch:
            if data.is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(data):
                raise ValueError(f"--watch {folder} and the data folder {self.data} must be apart")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls), _SavedPreferences(settings_cls)

    @property
    def has_command(self) -> bool:
        """Whether to run a command instead of serving; see `backend.runtime.commands`."""
        return bool(self.clear_cache or self.check or self.repair or self.export_file or self.import_file)

    @property
    def limits(self) -> Limits:
        """The limits on documents."""
        return Limits(**self.model_dump(include={field.name for field in fields(Limits)}))

    def mutable_values(self) -> dict[str, Any]:
        return self.model_dump(include=set(MUTABLE_SETTINGS))

    def updated(self, values: Mapping[str, Any]) -> "Settings":
        return Settings(**{**self.model_dump(), **values})


class _Environment(EnvSettingsSource):
    """The environment variables; a list is JSON, or paths as in PATH."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return [path for path in value.split(os.pathsep) if path]


class _SavedPreferences(PydanticBaseSettingsSource):
    """The preferences in the data folder. Unknown or invalid values are logged and ignored."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        given = self.current_state
        saved: dict[str, Any] = {}
        for name, value in read_preferences(Path(given.get("data") or default_data_folder())).items():
            try:
                saved[name] = _validate(name, value)
            except (ValidationError, KeyError):
                log.warning("the saved setting %r cannot be %r and is ignored", name, value)
        merged = {name: Settings.model_fields[name].default for name in CHUNKING} | saved | dict(given)
        with suppress(ValidationError):  # of a flag or variable: reported when the settings are built
            size, overlap = (_validate(name, merged[name]) for name in CHUNKING)
            if overlap >= size and not saved.keys().isdisjoint(CHUNKING):
                log.warning("the saved chunk size and overlap do not fit together and are ignored")
                return {name: value for name, value in saved.items() if name not in CHUNKING}
        return saved


def _validate(name: str, value: Any) -> Any:
    """Return the value of a mutable setting. Raises KeyError or ValidationError."""
    if name not in MUTABLE_SETTINGS:
        raise KeyError(name)
    field = Settings.model_fields[name]
    annotation: Any = Annotated[field.annotation, Field(), *field.metadata]
    return TypeAdapter(annotation).validate_python(value)


def read_preferences(data: Path) -> dict[str, Any]:
    """Return the preferences saved in a data folder; those saved by earlier versions under their current names."""
    values = Preferences(data).read()
    for name in MUTABLE_SETTINGS:
        if (old_name := ALIASES.get(name)) in values:
            values.setdefault(name, values.pop(old_name))
    return values


def save_preferences(settings: Settings, overridden: Collection[str]) -> None:
    """Save the values that differ from the defaults. Saved values of the settings in `overridden` stay as they are."""
    saved = {name: value for name, value in read_preferences(settings.data).items() if name in overridden}
    for name, value in settings.mutable_values().items():
        if name not in overridden and value != Settings.model_fields[name].default:
            saved[name] = value
    Preferences(settings.data).write(saved)


def read_settings(arguments: list[str] | None = None) -> Settings:
    """Return the settings for this process or these arguments. Raises BadSettings."""
    settings = CliApp.run(Settings, cli_args=arguments)
    if missing := next((folder for folder in settings.watch if not folder.is_dir()), None):  # later it may be unmounted
        raise BadSettings(f"--watch: there is no folder {missing}.")
    return settings


def overrides(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the flag or variable that sets each mutable setting, if there is one: {'model': '--model'}."""
    given = {argument.partition("=")[0] for argument in (sys.argv[1:] if arguments is None else arguments)}
    given |= {name.upper() for name in environment}
    overridden = {}
    for name in MUTABLE_SETTINGS:
        names = [str(each) for each in all_names(name).choices]
        sources = [f"--{each.replace('_', '-')}" for each in names] + [f"KVSCOPE_{each.upper()}" for each in names]
        if source := next((each for each in sources if each in given), None):
            overridden[name] = source
    if library := next((each for each in ("--library", "KVSCOPE_LIBRARY") if each in given), None):
        overridden |= dict.fromkeys(LIBRARY_SETTINGS, library)
    return overridden


def _describe(error: ErrorDetails) -> str:
    flag = f"--{str(error['loc'][0]).replace('_', '-')}: " if error["loc"] else ""
    return f"{flag}{error['msg'].removeprefix('Value error, ')}."
