"""Settings from the command line, from KVSCOPE_* environment variables, or the defaults, in this order."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict

from engine.model.embedded import NAME
from engine.startup import default_data
from store.errors import KVScopeError


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

    data: Path = Field(default_factory=default_data, description="folder for documents, index, chunk KV and models")
    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback shows it to others")
    port: int = Field(7860, ge=1, le=65535, description="port to listen on")
    model: str = Field(NAME, description="the model that answers: a folder, or a name on the Hugging Face hub")
    reader: str = Field("auto", description="finetuned adapter of the model: auto (the shipped one), off, or a folder")
    auxiliary: str = Field(NAME, description="the small model that chooses what to recompute, on the CPU")
    selector: str = Field(
        "auto", description="trained selector of the auxiliary: auto (the shipped one), off, or a folder"
    )
    reranker: str = Field(
        "off", description="cross-encoder that orders the passages last: off, a folder, or a name on the hub"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:1")
    dtype: Literal["auto", "bf16", "fp32"] = Field("auto", description="bf16 where the hardware has it, else fp32")
    device_gib: float = Field(2.0, ge=0, description="GPU memory for chunk KV, where the model runs on a GPU")
    host_gib: float = Field(1.5, ge=0, description="memory for chunk KV")
    disk_gib: float = Field(8.0, ge=0, description="disk for chunk KV")
    kv_bits: Literal[8, 16] = Field(16, description="of chunk KV on disk; 8 takes half the room and is not exact")
    policy: Literal["pgdsf", "gdsf", "lru", "lfu"] = Field(
        "pgdsf", description="which chunk KV goes when room is short"
    )
    chunk_tokens: int = Field(512, ge=16, le=4096, description="tokens of a passage (the paper: 1000)")
    chunk_overlap: int = Field(50, ge=0, description="tokens that neighbouring passages share")
    clear_cache: bool = Field(False, description="remove all chunk KV, say how much it was, and end")
    samples: bool = Field(True, description="add three sample documents at the first start")
    open_browser: bool = Field(False, description="open the page in the default browser")

    @model_validator(mode="after")
    def _overlap_is_a_part(self) -> "Settings":
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError(f"--chunk-overlap {self.chunk_overlap} must be below --chunk-tokens {self.chunk_tokens}")
        return self


def read_settings(arguments: list[str] | None = None) -> Settings:
    """Return the settings of this process (or of these arguments). Raises BadSettings, naming each that is wrong."""
    try:
        return CliApp.run(Settings, cli_args=arguments)
    except ValidationError as error:
        raise BadSettings(" ".join(_said(each["loc"], each["msg"]) for each in error.errors())) from error


def _said(place: tuple[int | str, ...], message: str) -> str:
    flag = f"--{str(place[0]).replace('_', '-')}: " if place else ""
    return f"{flag}{message.removeprefix('Value error, ')}."
