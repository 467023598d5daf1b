"""What people are told after real builds, as real servers receive it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from apprise.plugins.slack import NotifySlack
from shop import run_icegate
from typer.testing import CliRunner, Result

from icegate import dbt_process
from icegate.cli.main import app
from icegate.gate import ledger
from trust.conftest import Shop, described
from trust.receivers import Webhook, mailbox, own_certificate, webhook

pytestmark = pytest.mark.slow


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as made:
        yield made


def notify(shop: Shop, *options: str) -> Result:
    where = ["--project-dir", str(shop.folder), "--profiles-dir", str(shop.folder)]
    return CliRunner().invoke(app, ["notify", *where, *options])


def results(run: Result) -> list[str]:
    return [row["result"] for row in json.loads(run.stdout)["channels"]]


def describe(shop: Shop, change: Any) -> None:
    """Change the YAML of the shop."""
    told = described()
    change(told)
    shop.write_yaml("models/_models.yml", told)


def test_people_are_told_what_is_new_and_when_it_is_well_again(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ICEGATE_REPORT_URL", "https://reports.example/trust.html")
    with mailbox() as (mail_url, mails):
        file = tmp_path / "a folder" / "digests.txt"
        urls = f"json://{hook.at}/hook {mail_url} file://{str(file).replace(' ', '%20')}"
        monkeypatch.setenv("ICEGATE_CHANNELS", urls)
        assert notify(shop).exit_code == 0 and not hook.posts  # nothing was built yet

        assert shop.dbt("build").ok
        assert results(notify(shop, "--json")) == ["told"] * 3
        (good,) = hook.take()
        assert good["title"] == "T, release 1: all 2 tables can be used"
        assert good["type"] == "success"
        assert ": Customers and Orders." in good["message"]
        assert "https://reports.example/trust.html" in good["message"]
        (mail,) = mails()
        assert mail["subject"] == good["title"] and mail["to"] == "ann@shop.example"

        assert results(notify(shop, "--json")) == ["nothing new"] * 3
        shop.orders(10, 20, 30)
        assert shop.dbt("build").ok  # another release: all can be used, as before
        assert results(notify(shop, "--json")) == ["nothing new"] * 3

        shop.orders(10, None, None)
        assert not shop.dbt("build").ok
        assert results(notify(shop, "--json")) == ["told"] * 3
        (bad,) = hook.take()
        assert bad["title"] == "T, release 2: 2 of 2 tables are old" and bad["type"] == "warning"
        assert "Held back: Customers and Orders. You still see the figures of " in bad["message"]
        assert "2 orders have no amount." in bad["message"]
        assert "Touches: Revenue by day." in bad["message"]
        assert "Looked after by: Ann and Controlling." in bad["message"]
        assert "not_null" not in bad["message"] + bad["title"]
        (mail,) = mails()
        html = mail.get_body(("html",)).get_content()  # type: ignore[union-attr]
        assert mail["subject"] == bad["title"] and "<b>Held back:</b> Customers and Orders" in html

        assert not shop.dbt("build").ok
        assert results(notify(shop, "--json")) == ["nothing new"] * 3

        shop.orders(10, 20, 30, 40)
        assert shop.dbt("build").ok
        newcomer = f"json://{hook.at}/newcomer"
        monkeypatch.setenv("ICEGATE_CHANNELS", f"{urls} {newcomer}")
        assert results(notify(shop, "--json")) == ["told"] * 4
        first, second = sorted(hook.take(), key=lambda post: post["title"])
        assert first["title"] == "T, release 3: all 2 tables can be used"  # it knew of no fault
        assert second["title"] == "T, release 3: all is well again"
        assert second["message"].startswith("All is well again since today")
        assert "Up to date again: Customers and Orders." in second["message"]
        assert [mail["subject"] for mail in mails()] == [second["title"]]
        assert file.read_text().count("T, release") == 3 and not hook.posts


def test_each_release_is_told_where_that_is_wanted(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_CHANNELS", f"json://{hook.at}")
    monkeypatch.setenv("ICEGATE_DIGEST", "releases")
    for amounts in ((10,), (10, 20)):
        shop.orders(*amounts)
        assert shop.dbt("build").ok
        assert results(notify(shop, "--json")) == ["told"]
        assert results(notify(shop, "--json")) == ["nothing new"]
    assert results(notify(shop, "--json", "--again")) == ["told"]
    assert [post["title"][:12] for post in hook.take()] == ["T, release 1", *["T, release 2"] * 2]
    monkeypatch.setenv("ICEGATE_DIGEST", "daily")
    assert notify(shop).exit_code != 0


def test_a_channel_that_fails_is_told_by_the_next_run(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret, file = "hush-hush-4711", tmp_path / "digests.txt"
    with webhook() as hangs, webhook() as drips:
        hangs.answer, drips.answer, hook.answer = "hang", "drip", 500
        urls = [f"json://u:{secret}@{w.at}/{secret}?rto=60" for w in (hangs, drips, hook)]
        urls += [f"json://nowhere.invalid/{secret}", f"nosuch://{secret}/x", f"file://{file}"]
        monkeypatch.setenv("ICEGATE_CHANNELS", " ".join(urls))
        monkeypatch.setattr("icegate.trust.deliver.DELIVERY_S", 3)
        assert shop.dbt("build").ok
        began = time.monotonic()
        run = notify(shop)
        assert run.exit_code == 0 and time.monotonic() - began < 3 + 10
        why = dict(line.split("  ", 1) for line in run.stdout.splitlines()[1:])
        assert (
            "failed" in why[f"json://{hangs.at}"]
            and "no answer within" in why[f"json://{hangs.at}"]
        )
        assert "no answer within" in why[f"json://{drips.at}"]
        assert "error=500" in why[f"json://{hook.at}"]
        assert "failed" in why["json://nowhere.invalid"]
        assert "apprise knows no such URL" in why["ICEGATE_CHANNELS, URL 5"]
        assert secret not in run.output and file.read_text().count("T, release 1") == 1

    hook.answer = 200
    run = notify(shop, "--json", "--strict")
    assert run.exit_code == 1 and secret not in run.output
    assert results(run) == ["failed"] * 2 + ["told"] + ["failed"] * 2 + ["nothing new"]
    assert secret not in str(ledger.read_kept(shop.lake, "told"))
    assert len(hook.take()) == 1 and hook.paths == [f"/{secret}"] * 2


def test_a_channel_of_an_owner_gets_what_touches_it(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own(told: dict[str, Any]) -> None:
        told["models"][0]["config"]["meta"]["channel"] = "care-team"
        told["models"][1]["columns"][1].pop("data_tests")  # the two are published apart then
        told["exposures"][0]["config"] = {"meta": {"channel": "finance"}}
        told["exposures"][0]["depends_on"] = ["ref('fct_orders')"]
        told["models"][1]["config"] = {"meta": {"channel": f"json://{hook.at}/hush"}}

    describe(shop, own)
    shop.orders(10, None)
    assert not shop.dbt("build").ok
    monkeypatch.setenv("ICEGATE_CHANNEL_CARE_TEAM", f"json://{hook.at}/care")
    monkeypatch.setenv("ICEGATE_CHANNEL_FINANCE", f"json://{hook.at}/finance")
    run = notify(shop)
    assert run.exit_code == 2, "a URL in YAML"
    assert "cannot use the `meta.channel` of model.t.fct_orders" in run.stderr
    assert "hush" not in run.output and "ICEGATE_CHANNELS isn't set" in run.stderr
    told = dict(zip(hook.paths, hook.take(), strict=True))
    assert told["/care"]["title"] == "T, release 1: it can be used"
    assert "Orders" not in told["/care"]["message"]
    assert told["/finance"]["title"] == "T, release 1: 1 of 1 table is not to be used"
    assert "Customers" not in told["/finance"]["message"]
    assert "1 order has no amount" in told["/finance"]["message"]


MARKUP = (
    "<script>alert(1)</script> *bold* _it_ <!channel> <at>Bob</at> @everyone [a](https://b.example)"
)


def test_markup_and_personal_data_do_not_get_through(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def rename(told: dict[str, Any]) -> None:
        told["exposures"][0].update(label=MARKUP, url="javascript:alert(1)")
        told["exposures"][0]["owner"]["name"] = f"Owner {MARKUP}"
        allowed = {"accepted_values": {"arguments": {"values": ["ann@example.com"]}}}
        told["models"][0]["columns"][1]["data_tests"] = [allowed]

    describe(shop, rename)
    assert not shop.dbt("build").ok
    slack = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7"
    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://{hook.at}/services")
    with webhook(own_certificate(tmp_path)) as teams, mailbox() as (mail_url, mails):
        urls = f"slack://{slack} workflows://{teams.at}/flow4711/signature4711?verify=no"
        monkeypatch.setenv("ICEGATE_CHANNELS", f"{urls} {mail_url}")
        run = notify(shop)
        assert run.stdout.count("told") == 3 and not {*slack.split("/")} & {*run.stdout.split("/")}
        ((in_slack,), (in_teams,), (mail,)) = hook.take(), teams.take(), mails()
    text = in_slack["attachments"][0]["text"]
    assert "&lt;script&gt;" in text and "<script" not in text and "<!" not in text
    card = in_teams["attachments"][0]["content"]
    told = card["body"][-1]["text"]
    assert r"\<script\>" in told and r"\*bold\*" in told and r"\[a\]" in told
    assert "entities" not in card["msteams"]
    html = mail.get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert "&lt;script&gt;" in html and "<script" not in html and "javascript:" not in html
    for each in (text, told, html):
        assert "@everyone" not in each and "@\u200beveryone" in each
        assert "example.com" not in each.replace("controlling@example.com", "")
        assert "1 value of email is none of •••" in each


@pytest.mark.long
def test_a_build_ends_as_it_would_have(
    shop: Shop, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as hangs:
        hangs.answer = "hang"
        urls = f"json://{hook.at} json://{hangs.at}/?rto=60 nosuch://x"
        where = ["--project-dir", str(shop.folder), "--profiles-dir", str(shop.folder)]
        monkeypatch.setenv("ICEGATE_CHANNELS", urls)
        run = run_icegate(shop.folder, "build", *where)
        assert run.code == 0, run.out + run.err
        assert "Completed successfully" in run.out and "no answer within 10 seconds" in run.err
        (good,) = hook.take()
        assert good["title"] == "T, release 1: all 2 tables can be used"

        began = time.monotonic()
        dbt_process.tell(shop.folder, shop.folder, None)
        assert time.monotonic() - began < dbt_process.TELL_S - 5  # who hangs isn't waited for
        run = run_icegate(shop.folder, "release", "rollback", "1", *where, "--json")
        assert run.code == 0 and run.json["release"] is None and not hook.posts
        monkeypatch.setattr(dbt_process, "TELL_S", 1)
        began = time.monotonic()
        dbt_process.tell(shop.folder, shop.folder, None)
        assert time.monotonic() - began < 5

        monkeypatch.setenv("ICEGATE_CHANNELS", f"json://{hook.at}/newcomer")
        with ThreadPoolExecutor() as two:
            runs = two.map(lambda _: run_icegate(shop.folder, "notify", *where), range(2))
        assert [run.code for run in runs] == [0, 0] and len(hook.take()) == 1
