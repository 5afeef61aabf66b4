"""A keyring for tests that keeps its entries in a JSON file, which all processes share: ``FILE_KEYRING=FILE``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    @property
    def _path(self) -> Path:
        return Path(os.environ["FILE_KEYRING"])

    def _entries(self) -> dict[str, str]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        new.write_text(json.dumps({**self._entries(), f"{service}/{username}": password}))
        new.replace(self._path)

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError
