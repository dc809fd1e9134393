"""Settings from the command line, KVSCOPE_* environment variables, the page's choices, or defaults, in this order."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliApp, PydanticBaseSettingsSource, SettingsConfigDict

from engine.model.loading.bundled import NAME
from store.data_folder import default_data_folder
from store.errors import KVScopeError
from store.preferences import Preferences

MUTABLE_SETTINGS = (  # what the page may change and the data folder remembers
    *("model", "reader", "auxiliary", "pointer", "selector", "reranker", "device", "dtype"),
    *("device_gib", "host_gib", "disk_gib", "kv_bits", "policy", "chunk_tokens", "chunk_overlap"),
)
log = logging.getLogger("kvscope")


class BadSettings(KVScopeError):
    hint = "Run python app.py --help for what each setting may be."


class Settings(BaseSettings):
    """KVScope: ask your own documents, on your own machine."""

    model_config = SettingsConfigDict(
        env_prefix="KVSCOPE_",
        cli_prog_name="app.py",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
    )

    data: Path = Field(
        default_factory=default_data_folder, description="folder for documents, index, chunk KV and models"
    )
    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback shows it to others")
    port: int = Field(7860, ge=1, le=65535, description="port to listen on")
    model: str = Field(NAME, description="the model that answers: a folder, or a name on the Hugging Face hub")
    reader: str = Field("auto", description="finetuned adapter of the model: auto (the shipped one), off, or a folder")
    pointer: str = Field(
        "auto",
        description="trained pointer, which tells the reader where to look: auto (the shipped one), off, or a folder",
    )
    auxiliary: str = Field(NAME, description="the small model that chooses what to recompute, on the CPU")
    selector: str = Field(
        "auto", description="trained selector of CacheClip trained: auto (the shipped one), off, or a folder"
    )
    reranker: str = Field(
        "off", description="cross-encoder that orders the passages last: off, a folder, or a name on the hub"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:1")
    dtype: Literal["auto", "bf16", "fp32"] = Field("auto", description="bf16 where the hardware has it, else fp32")
    device_gib: float = Field(
        2.0, ge=0, allow_inf_nan=False, description="GPU memory for chunk KV, where the model runs on a GPU"
    )
    host_gib: float = Field(1.5, ge=0, allow_inf_nan=False, description="memory for chunk KV")
    disk_gib: float = Field(8.0, ge=0, allow_inf_nan=False, description="disk for chunk KV")
    kv_bits: Literal[8, 16] = Field(16, description="of chunk KV on disk; 8 takes half the room and is not exact")
    policy: Literal["pgdsf", "gdsf", "lru", "lfu"] = Field(
        "pgdsf", description="which chunk KV goes when room is short"
    )
    chunk_tokens: int = Field(512, ge=16, le=4096, description="tokens of a passage (the paper: 1000)")
    chunk_overlap: int = Field(50, ge=0, description="tokens that neighbouring passages share")
    clear_cache: bool = Field(False, description="remove all chunk KV, say how much it was, and end")
    samples: bool = Field(True, description="add three sample documents at the first start")
    open_browser: bool = Field(False, description="open the page in the default browser")

    @field_validator("data")
    @classmethod
    def _at_home(cls, data: Path) -> Path:
        return data.expanduser()  # no shell does that in --data=~/kvscope

    @model_validator(mode="after")
    def _overlap_is_a_part(self) -> "Settings":
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError(f"--chunk-overlap {self.chunk_overlap} must be below --chunk-tokens {self.chunk_tokens}")
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
        return init_settings, env_settings, _Chosen(settings_cls)

    def choices(self) -> dict[str, Any]:
        """Return the values that the page may change, by name."""
        return self.model_dump(include=set(MUTABLE_SETTINGS))

    def with_choices(self, values: Mapping[str, Any]) -> "Settings":
        """Return these settings with other choices. Raises BadSettings, naming each that is wrong."""
        try:
            return Settings(**{**self.model_dump(), **values})
        except ValidationError as error:
            raise BadSettings(_all_said(error)) from error


class _Chosen(PydanticBaseSettingsSource):
    """What was chosen on the page. A value that is unknown or wrong is named in the log, and the default stands."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        given = self.current_state
        found: dict[str, Any] = {}
        for name, value in Preferences(Path(given.get("data") or default_data_folder())).read().items():
            try:
                found[name] = _valid(name, value)
            except (ValidationError, KeyError):
                log.warning("the chosen setting %r cannot be %r and is left aside", name, value)
        whole = {name: Settings.model_fields[name].default for name in _CUTS} | found | dict(given)
        try:
            fit = _valid("chunk_overlap", whole["chunk_overlap"]) < _valid("chunk_tokens", whole["chunk_tokens"])
        except ValidationError:  # of a flag or a variable: it is said of that
            return found
        if not fit and any(name in found for name in _CUTS):
            log.warning("the chosen passage length and overlap do not fit together and are left aside")
            found = {name: value for name, value in found.items() if name not in _CUTS}
        return found


_CUTS = ("chunk_tokens", "chunk_overlap")


def _valid(name: str, value: Any) -> Any:
    """Return the value of a setting that may be chosen. Raises KeyError and ValidationError."""
    if name not in MUTABLE_SETTINGS:
        raise KeyError(name)
    field = Settings.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind).validate_python(value)


def read_settings(arguments: list[str] | None = None) -> Settings:
    """Return the settings of this process (or of these arguments). Raises BadSettings, naming each that is wrong."""
    try:
        return CliApp.run(Settings, cli_args=arguments)
    except ValidationError as error:
        raise BadSettings(_all_said(error)) from error


def overrides(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the flag or variable that fixes each setting of `CHOSEN` that has one: {'model': '--model'}.

    arguments  of the command line; this process's by default
    """
    flags = {argument.partition("=")[0] for argument in (sys.argv[1:] if arguments is None else arguments)}
    variables = {name.upper() for name in environment}
    fixed = {}
    for name in MUTABLE_SETTINGS:
        flag, variable = f"--{name.replace('_', '-')}", f"KVSCOPE_{name.upper()}"
        if flag in flags or variable in variables:
            fixed[name] = flag if flag in flags else variable
    return fixed


def _all_said(error: ValidationError) -> str:
    return " ".join(_said(each["loc"], each["msg"]) for each in error.errors())


def _said(place: tuple[int | str, ...], message: str) -> str:
    flag = f"--{str(place[0]).replace('_', '-')}: " if place else ""
    return f"{flag}{message.removeprefix('Value error, ')}."
