"""Take out of `main`'s manifests what they still say of files that went: their names and bounds.

Iceberg lists a file that was deleted until its manifest is written again, and it doesn't do that
with manifests of delete files where there are few.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from icegate.erasure.listed import Deletes, Name


class Manifests:
    """The manifests of the main branch of a table, by Iceberg's Java."""

    def __init__(self, table: Any, jvm: Any) -> None:
        self._table, self._jvm = table, jvm

    def write_data_again(self) -> None:
        """Write all manifests of data files again, without those that were deleted."""
        one = self._jvm.org.sparkproject.guava.base.Functions
        self._table.rewriteManifests().clusterBy(one.constant("all")).commit()

    def drop_deletes(self, names: Collection[Name]) -> None:
        """Drop delete files that apply to nothing."""
        if not names:
            return
        manifests, rewrite = self._of_deletes(), self._table.newRewrite()
        for manifest in manifests:
            for file in self._read(manifest):
                if _name(file) in names:
                    rewrite.deleteFile(file)
        rewrite.commit()

    def write_deletes_again(
        self, paths: Collection[str], live: Mapping[str, Mapping[Name, Deletes]]
    ) -> None:
        """Write manifests of delete files again, given what is ``live`` in each, by path."""
        for manifest in [m for m in self._of_deletes() if m.path() in paths]:
            rewrite = self._table.rewriteManifests().deleteManifest(manifest)
            if live.get(manifest.path()):
                rewrite.addManifest(self._written(manifest, live[manifest.path()]))
            rewrite.commit()

    def _written(self, old: Any, live: Mapping[Name, Deletes]) -> Any:
        """Return a new manifest with the files; they keep their sequence numbers."""
        place = f"{self._table.location()}/metadata/{uuid.uuid4()}-m0.avro"
        version = self._table.operations().current().formatVersion()
        spec = self._table.specs().get(old.partitionSpecId())
        out = self._table.io().newOutputFile(place)
        writer = self._files().writeDeleteManifest(version, spec, out, None)
        for file in self._read(old):
            numbers = file.dataSequenceNumber(), file.fileSequenceNumber()
            writer.existing(file, live[_name(file)].added_by, *numbers)
        writer.close()
        return writer.toManifestFile()

    def _of_deletes(self) -> list[Any]:
        self._table.refresh()
        return [*self._table.currentSnapshot().deleteManifests(self._table.io())]

    def _read(self, manifest: Any) -> Iterator[Any]:
        reader = self._files().readDeleteManifest(manifest, self._table.io(), self._table.specs())
        found = reader.iterator()
        while found.hasNext():
            yield found.next().copy()
        reader.close()

    def _files(self) -> Any:
        return self._jvm.org.apache.iceberg.ManifestFiles


def _name(file: Any) -> Name:
    return file.location(), file.referencedDataFile()
