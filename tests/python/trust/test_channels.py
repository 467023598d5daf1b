"""Channels: what may be shown of their URLs, and what is refused; and what words never hold."""

from __future__ import annotations

import sys

import pytest

from icegate.errors import ConfigError
from icegate.trust.channels import channels, named
from icegate.trust.project import Model, Owner, Project, _without_values

TOKENS = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7"


def project(*channels: str) -> Project:
    models = [
        Model(f"model.t.{number}", f"m{number}", f"gold.m{number}", "model", "", {}, (),
              (), (), {}, Owner(channel=name), "")
        for number, name in enumerate(channels)
    ]  # fmt: skip
    return Project("t", {model.id: model for model in models})


def test_only_names_are_taken_from_meta() -> None:
    names, wrong = named(project("finance", "", "care-team", f"slack://{TOKENS}", "two words"))
    assert names == ["care-team", "finance"]
    assert [error.what[-9:] for error in wrong] == ["model.t.3", "model.t.4"]
    assert "it's a URL" in wrong[0].why and "it's a URL" not in wrong[1].why
    assert "T1JJ3T3L2" not in wrong[0].render()


def test_a_url_shows_no_more_than_scheme_and_host() -> None:
    urls = {
        "ICEGATE_CHANNELS": f"slack://{TOKENS}, json://ann:secret@hook.example:8080/hush?+Key=hush"
        f" mailtos://ann:secret@shop.example nosuch://secret {TOKENS} file:///var/digests.txt",
        "ICEGATE_CHANNEL_CARE_TEAM": "ntfys://ann:secret@push.example/hush",
    }
    found = channels(["care-team", "finance"], urls)
    labels = ["slack://T...2", "json://hook.example:8080", "mailtos://shop.example"]
    labels += ["ICEGATE_CHANNELS, URL 4", "file:///var/digests.txt", "ntfys://push.example"]
    assert [channel.label for channel in found] == labels
    assert [channel.name for channel in found] == ["", "", "", "", "", "care-team"]
    assert [bool(channel.wrong) for channel in found] == [False] * 3 + [True] + [False] * 2
    told = str(found) + "".join(channel.key for channel in found)
    assert not any(secret in told for secret in ("secret", "hush", *TOKENS.split("/")))


def test_a_password_that_is_changed_leaves_the_channel_the_same() -> None:
    of = [f"json://ann:{word}@hook.example/digests" for word in ("one-secret", "two-secret")]
    (one,), (two,) = (channels([], {"ICEGATE_CHANNELS": url}) for url in of)
    (other,) = channels([], {"ICEGATE_CHANNELS": "json://ann@hook.example/other"})
    assert one.key == two.key != other.key


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        ({"column_name": "email", "values": ["a@b.example"]}, {"values"}),
        ({"column_name": "Email", "min_value": 1, "max_value": 2}, {"min_value", "max_value"}),
        ({"expression": "EMAIL != 'a@b.example'"}, {"expression"}),
        ({"column_name": "state", "values": ["new"]}, set()),
        ({"expression": "email_count > 1"}, set()),
        ({"column_name": "email", "to": "ref('people')", "field": "id"}, set()),
    ],
)
def test_words_have_no_values_of_a_personal_column(given: dict, hidden: set) -> None:
    told = _without_values(dict(given), {"email": "email"})
    assert {
        key for key in given if told[key] != given[key]
    } == hidden and told.keys() == given.keys()
    assert not hidden or "b.example" not in str(told)


def test_without_apprise_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise.utils.parse", None)
    with pytest.raises(ConfigError, match=r"icegate\[alerts\]"):
        channels([], {"ICEGATE_CHANNELS": "json://hook.example"})
