"""`icegate erase`: forget a person, in all tables, versions and files; a dry run without --yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, on_lake

if TYPE_CHECKING:
    from icegate.erasure.run import Erasure, Found


@on_lake
def erase(
    at: Opened,
    subject: Annotated[
        str, typer.Option(help="Whom: the kind and key, as in `customer=C-000123`.")
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Erase: it can't be taken back. Else it's only told.")
    ] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Tags and branches that may go too, as in `month_end_*`."),
    ] = None,
    reference: Annotated[
        str, typer.Option(help="What the certificate names, such as a ticket.")
    ] = "",
) -> Shown:
    """Forget a person: delete the rows, rewrite, expire, look again, and certify."""
    from icegate.erasure.run import Erasure
    from icegate.erasure.subject import Known, Subject
    from icegate.nodes import read_manifest

    manifest = read_manifest(at.project, "which columns say whose a row is")
    whom = Subject.of(subject, Known(manifest).kinds)
    say = (lambda line: None) if at.as_json else _say
    # The cores of a cluster are its warm server's, where there is one.
    lake = at.lake.model_copy(update={"master": None}) if at.is_served else at.lake
    erasure = Erasure(lake, at.project, manifest, whom, at.target, drop or [], say)
    if not yes:
        return _told(erasure, erasure.look())
    return _done(erasure, reference)


def _say(line: str) -> None:
    from icegate.cli.output import print_line

    print_line(line)


def _told(erasure: Erasure, found: Found) -> Shown:
    """Return what an erasure would do."""
    rows: list[dict[str, Any]] = [
        {
            "table": survey.name,
            "rows": survey.rows,
            "files": len(survey.hits),
            "versions_that_go": len(survey.expires),
            "of": len(survey.table.metadata.get("snapshots") or []),
            "tags_that_go": sorted(survey.going),
        }
        for survey in found.held
    ]
    landed = [{"file": str(each.path), "rows": each.rows} for each in found.landed if each.rows]
    gone = [*(path for path, is_output in found.texts if is_output), *found.left]
    texts = [{"file": str(path)} for path in gone]
    ways = [{"what": what, "why": why} for what, why in found.blocks()]
    said = f"{erasure.subject.shown}: "
    said += "nothing is left" if found.is_clean else "this is what `--yes` takes out; rows are "
    said += "" if found.is_clean else "those of all versions"
    blocks: list[str | Line | Grid] = [
        said,
        Grid("table rows files versions_that_go of tags_that_go", rows),
        Grid("file rows", landed, "landing files"),
        Grid("file", texts, "files that are deleted"),
        Grid("what why", ways, "in the way of a certificate"),
    ]
    facts: dict[str, Any] = {
        "subject": erasure.subject.shown,
        "tables": rows,
        "landing_files": landed,
    }
    facts |= {"other_files": texts, "in_the_way": ways, "clean": found.is_clean}
    return Shown(facts, blocks, 0, _notes(found))


def _done(erasure: Erasure, reference: str) -> Shown:
    """Erase; return the certificate, or what is in its way."""
    from icegate.erasure.run import certificate
    from icegate.session import start_session

    before, after, cost = erasure.erase(lambda: start_session(erasure.lake))
    found = certificate(erasure, before, after, cost, reference)
    path = _keep(erasure, found)
    lost = [{"table": name, **each} for name, each in cost["tables"].items()]
    ways: list[dict[str, Any]] = found["in_the_way"]
    seen = found["looked_at"]
    told = (
        f"certified: {seen['files']:,} files of {seen['tables']} tables, in {seen['versions']} "
        f"versions and {seen['branches_and_tags']} branches and tags, have nothing of "
        f"{erasure.subject.shown}"
    )
    line = Line(told, "bold green") if found["certified"] else Line("not certified", "bold red")
    blocks: list[str | Line | Grid] = [
        Grid("table versions of tags oldest_left", lost, "what it cost in history"),
        Grid("what why", ways, "in the way of a certificate"),
        line,
        f"{'certificate' if found['certified'] else 'report'}: {path}",
    ]
    return Shown(found, blocks, 0 if found["certified"] else 1, _notes(after))


def _keep(erasure: Erasure, found: dict[str, Any]) -> Path:
    """Write a certificate into the project's home, and return where it is."""
    from icegate.cli.output import plain
    from icegate.server_launch import write_private

    path = erasure.lake.home / "erasures" / f"{found['at']:%Y%m%dT%H%M%S%f}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(plain(found), indent=2, ensure_ascii=False))
    return path


def _notes(found: Found) -> list[str]:
    from icegate.erasure.run import NOT_SEEN

    return [f"not looked at: {'; '.join(NOT_SEEN)}"]
