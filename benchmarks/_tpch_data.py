"""TPC-H's rows as Parquet files, and what is in the way of making them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from _bench import HOME, Side, peer_python, refuse

from icegate.catalog import list_relations, read_metadata
from icegate.settings import Lake

SCALES = ("0.01", "0.1", "1", "10")
# Generated files, two lakes, and what the overwrites of a refresh leave behind.
GB_PER_SCALE, GB_MORE = 2, 1


def files_of(scale: str) -> Path:
    """Return the folder of the eight Parquet files of a scale factor, made on first use."""
    if scale not in SCALES:
        refuse(
            f"cannot make TPC-H at scale factor {scale}",
            why="answers and keys were looked at for the sizes of the claim only",
            fix=f"--scale takes one of {', '.join(SCALES)}",
        )
    folder = HOME / "tpch" / "files" / scale
    _need_disk(scale)
    if not folder.exists():
        _generate(scale, folder)
    return folder


def _need_disk(scale: str) -> None:
    place = HOME
    while not place.exists():
        place = place.parent
    need, free = GB_MORE + GB_PER_SCALE * float(scale), shutil.disk_usage(place).free / 1e9
    if free < need:
        refuse(
            f"too little disk for TPC-H at scale factor {scale}",
            why=f"files and both lakes take up to {need:.1f} GB, and {free:.1f} GB are free",
            fix="make room where the checkout lies, or give a smaller --scale",
        )


def _generate(scale: str, folder: Path) -> None:
    unfinished = folder.with_name(f"{scale}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    command = [str(_generator()), "parquet", "-s", scale, "--output-dir", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        refuse(
            f"cannot make TPC-H's files at scale factor {scale}",
            why=f"tpchgen-cli said: {(done.stderr or done.stdout).strip()}",
            fix="see that the disk has room, and run this again",
        )
    unfinished.rename(folder)


def _generator() -> Path:
    """Return tpchgen-cli in an environment of its own."""
    try:
        program = peer_python("tpchgen").parent / "tpchgen-cli"
        found = program.exists()
    except (subprocess.CalledProcessError, OSError):
        found = False
    if not found:
        refuse(
            "no tpchgen-cli",
            why=f"it couldn't be installed into {HOME / 'env' / 'tpchgen'}; what was said is above",
            fix="connect to a package index once and run this again",
        )
    return program


def refuse_other_rows(*sides: Side) -> None:
    """End the program when one side's tables have other numbers of rows than the other's."""
    ours, peers = (_rows(side) for side in sides)
    names = sorted(ours.keys() | peers.keys())
    pairs = {name: (ours.get(name), peers.get(name)) for name in names}
    other = [f"{name}: {mine} and {theirs} rows"
             for name, (mine, theirs) in pairs.items() if mine != theirs]  # fmt: skip
    if other:
        refuse(
            "cannot compare: the two sides made other tables",
            why="\n       ".join(other),
            fix=f"look at them in {' and '.join(str(side.folder) for side in sides)}",
        )


def _rows(side: Side) -> dict[str, int]:
    lake = Lake(home=side.home, warehouse=side.home / "warehouse")
    return {entry.name: _records(read_metadata(entry)) for entry in list_relations(lake, "bench")}


def _records(metadata: dict[str, Any]) -> int:
    newest = metadata["current-snapshot-id"]
    (snapshot,) = (each for each in metadata["snapshots"] if each["snapshot-id"] == newest)
    return int(snapshot["summary"]["total-records"])
