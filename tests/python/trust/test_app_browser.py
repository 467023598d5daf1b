"""The app in a real browser: what it shows, what it asks for, and who can read it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from trust.browsed import MARKUP, make_browsed, manifest, two_tables, write
from trust.receivers import free_port

pytestmark = pytest.mark.long

START = "from icegate.cli.main import main; main()"
ENDED = (
    "document.querySelector('[data-test-script-state=notRunning]')"
    " && !document.querySelector('[data-testid=stSpinner]')"
)


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, "app", "--port", str(port)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DBT_")}
    kept |= {"STREAMLIT_SERVER_ADDRESS": "0.0.0.0", "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "true"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=kept, **pipes)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the app runs that `icegate app` started."""
    folder = make_browsed(tmp_path_factory.mktemp("app") / "a b")
    write(folder, manifest(*two_tables(), label=MARKUP))
    with start(folder, free_port()) as app:
        lines = iter(app.stdout.readline, "")  # type: ignore[union-attr]
        yield next(found[1] for line in lines if (found := re.search(r"URL: (http\S+)", line)))
        app.terminate()
        app.communicate(timeout=60)  # it has something to say before it ends


@pytest.fixture
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_a_person_sees_what_is_held_back_and_nobody_else_is_asked(
    address: str, browser: Any
) -> None:
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.goto(address)
    page.get_by_text("Difference of two releases").wait_for(timeout=120_000)
    page.wait_for_function(ENDED, timeout=120_000)
    said = page.inner_text("body")
    assert "Can I use it today?" in said and "Yes, but old" in said
    assert "1 value of id is none of 0, 1 and 2. In s.a, build cccccccc:" in said
    assert f"{MARKUP}: 1 value of id" in said
    failing = (
        page.get_by_role("region", name="Rows of s.a that fail").locator("td").all_inner_texts()
    )
    assert failing == ["3", "•••", "4", "•••"]
    own = re.compile(rf"(http|ws)://{re.escape(address.partition('://')[2].rstrip('/'))}/")
    assert asked and not [url for url in asked if not own.match(url) and url[:5] != "data:"]
    found = Axe().run(page)
    assert found.response["passes"] and not found.response["violations"]


@pytest.mark.parametrize(
    ("page", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1", 101),
        ("localhost", "localhost", 101),
        ("elsewhere.example", "127.0.0.1", 403),
        # By a name that someone lets mean this machine.
        ("elsewhere.example", "elsewhere.example", 403),
    ],
)
def test_a_page_of_someone_else_cannot_read_along(
    address: str, page: str, host: str, status: int
) -> None:
    port = int(address.rpartition(":")[2].rstrip("/"))
    asked = HTTPConnection("127.0.0.1", port, timeout=30)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    origin = {"Origin": f"http://{page}:{port}", "Host": f"{host}:{port}"}
    asked.request("GET", "/_stcore/stream", headers={**upgrade, **key, **origin})
    assert asked.getresponse().status == status
    asked.close()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    folder = make_browsed(tmp_path / "a b")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(folder, port) as app:
            said, _ = app.communicate(timeout=60)
    assert app.returncode == 1 and f"Port {port} is not available" in said
