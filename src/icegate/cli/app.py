"""`icegate app`: a page in the browser that shows releases, rows and tests."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from icegate.cli.common import Opened, Shown, on_lake
from icegate.errors import ConfigError

# On the command line, since these come before anybody's own settings of Streamlit.
FLAGS = (
    "--server.address=127.0.0.1",
    "--server.headless=true",  # it asks for no mail address, and opens no browser
    "--server.fileWatcherType=none",
    "--server.enableCORS=true",  # other pages in the same browser stay out …
    "--server.allowedHosts=127.0.0.1",
    "--server.allowedHosts=localhost",  # … also those that give this address a name of theirs
    "--server.enableXsrfProtection=true",
    "--browser.gatherUsageStats=false",
    "--client.toolbarMode=minimal",  # without a button that deploys it elsewhere
    "--client.showErrorDetails=none",  # a traceback may show values of rows …
    "--client.showErrorLinks=false",  # … and these would hand it to a search engine
)


@on_lake
def app(
    at: Opened,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port.", show_default="8501, or a later one"),
    ] = None,
) -> Shown:
    """Look at releases, rows and tests in the browser, on this machine only."""
    if find_spec("streamlit") is None:
        raise ConfigError(
            "cannot start the app",
            why="Streamlit isn't installed",
            fix="pip install 'icegate[app]'",
        )
    import icegate.trust

    environ = {**os.environ, "DBT_PROJECT_DIR": str(at.project), "DBT_TARGET": at.target}
    if at.profiles_dir:
        environ["DBT_PROFILES_DIR"] = str(at.profiles_dir.absolute())
    assert at.lake  # what is wrong with the target is told here, rather than in the browser
    page = Path(icegate.trust.__path__[0]) / "app.py"
    command = [sys.executable, "-m", "streamlit", "run", str(page), *FLAGS]
    command += [f"--server.port={port}"] if port else []
    os.execve(sys.executable, command, environ)
