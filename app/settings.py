"""Where Fader keeps its files and how it serves: one settings object, overridable by FADER_* environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path, user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

DATABASE_NAME = "fader.db"


class Settings(BaseSettings):
    """``home`` holds chats and settings and is never deleted by Fader; ``cache`` can be rebuilt."""

    model_config = SettingsConfigDict(env_prefix="FADER_", frozen=True)

    home: Path = Field(default_factory=lambda: user_data_path("fader", appauthor=False))
    cache: Path = Field(default_factory=lambda: user_cache_path("fader", appauthor=False))
    host: str = "127.0.0.1"
    port: int = Field(default=7860, ge=1, le=65535)
    password: SecretStr | None = None
    model: str = "builtin"
    flush_seconds: float = Field(default=0.5, gt=0, le=0.5)
    prefill_chunk: int = Field(default=256, ge=16, le=4096)
    prefix_cache_mb: int = Field(default=512, ge=0)
    tensor_parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Spread the model over so many processes, one graphics card each if there are cards.",
    )
    read_ahead: bool = Field(
        default=True,
        description="While there is nothing else to do, read a finished reply, so that the next begins sooner.",
    )
    remote_url: str | None = Field(
        default=None, description="An OpenAI-compatible server whose models are listed, such as https://host:8000/v1."
    )
    remote_key: SecretStr | None = Field(default=None, description="The key for remote_url; no other server gets it.")
    remote_kind: Literal["auto", "openai", "vllm"] = Field(
        default="auto", description="What the servers understand; auto asks them."
    )
    fast_step: bool = Field(
        default=True, description="Decode by Fader's own single-token step where it serves the model."
    )
    idle_unload_minutes: float = Field(
        default=0, ge=0, description="Free the model after so long without a run; 0: never."
    )
    max_message_chars: int = Field(default=200_000, ge=1)

    @property
    def database(self) -> Path:
        """The file with all conversations."""
        return self.home / DATABASE_NAME
