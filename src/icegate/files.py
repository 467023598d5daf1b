"""Local files for PyIceberg, whose own ways to them import Arrow and pandas, or a REST client."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from pyiceberg.io import FileIO, InputFile, OutputFile

from icegate.catalog import local_path


class LocalFile(InputFile, OutputFile):
    """One file, by its path as Iceberg writes it: `#` and `?` are letters of it."""

    @property
    def path(self) -> Path:
        """Where it lies on this machine."""
        return local_path(self.location)

    def __len__(self) -> int:
        """Return its size in bytes."""
        return self.path.stat().st_size

    def exists(self) -> bool:
        """Tell whether it's there."""
        return self.path.is_file()

    def open(self, seekable: bool = True) -> Any:
        """Open it to read."""
        return self.path.open("rb")

    def create(self, overwrite: bool = False) -> Any:
        """Open it to write; raises ``FileExistsError``."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        opened: BinaryIO = self.path.open("wb" if overwrite else "xb")
        return opened

    def to_input_file(self) -> InputFile:
        """Return what reads it."""
        return self


class LocalFiles(FileIO):
    """What PyIceberg reads and writes files with."""

    def new_input(self, location: str) -> LocalFile:
        """Return a file to read."""
        return LocalFile(location)

    def new_output(self, location: str) -> LocalFile:
        """Return a file to write."""
        return LocalFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        local_path(location if isinstance(location, str) else location.location).unlink()
