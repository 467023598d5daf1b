"""Files for PyIceberg, whose own ways to them import Arrow and pandas, or a REST client."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from pyiceberg.io import FileIO, InputFile, OutputFile

from icegate.storage import delete, is_remote, local_path, read, stat, write


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


class ObjectFile(InputFile, OutputFile):
    """One object in S3, read and written as a whole: manifests, and the ledger's few rows."""

    def __len__(self) -> int:
        """Return its size in bytes."""
        return stat(self.location).size

    def exists(self) -> bool:
        """Tell whether it's there."""
        try:
            return stat(self.location).size >= 0
        except FileNotFoundError:
            return False

    def open(self, seekable: bool = True) -> Any:
        """Open it to read."""
        return BytesIO(read(self.location))

    def create(self, overwrite: bool = False) -> Any:
        """Open it to write; names are never taken twice."""
        return _Sent(self.location)

    def to_input_file(self) -> InputFile:
        """Return what reads it."""
        return self


class _Sent(BytesIO):
    """What is sent to S3 once it's closed."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location

    def close(self) -> None:
        if not self.closed:
            write(self.location, self.getvalue())
        super().close()


class StoredFiles(FileIO):
    """What PyIceberg reads and writes files with, wherever they are."""

    def new_input(self, location: str) -> LocalFile | ObjectFile:
        """Return a file to read."""
        return ObjectFile(location) if is_remote(location) else LocalFile(location)

    def new_output(self, location: str) -> LocalFile | ObjectFile:
        """Return a file to write."""
        return ObjectFile(location) if is_remote(location) else LocalFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        delete(location if isinstance(location, str) else location.location)
