"""Who a stream is to a Kafka: what becomes of its profiles, and that no secret is told."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from icegate.errors import ConfigError
from icegate.profiles import read_rendered
from icegate.streams.auth import MSK_IAM, load_profile
from icegate.streams.source import REDACTED

SECRET = "swordfish"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with this repository's profiles, and none of their variables set."""
    for name in ("USERNAME", "PASSWORD", "CERTIFICATE", "KEY", "CA"):
        monkeypatch.delenv(f"KAFKA_{name}", raising=False)
    (tmp_path / "profiles").mkdir()
    shutil.copy(ROOT / "profiles" / "kafka.yml", tmp_path / "profiles")
    return tmp_path


def write(project: Path, **profiles: Any) -> None:
    (project / "profiles" / "kafka.yml").write_text(yaml.safe_dump(profiles))


def options(project: Path, name: str) -> dict[str, str]:
    return load_profile(project, name).options(project / "profiles")


def test_without_a_file_there_is_plaintext_alone(tmp_path: Path) -> None:
    assert options(tmp_path, "plaintext") == {"security.protocol": "PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"cannot find Kafka profiles: .*profiles/kafka\.yml"):
        load_profile(tmp_path, "scram")


def test_plaintext_and_iam_need_no_variables(project: Path) -> None:
    assert options(project, "plaintext") == {"security.protocol": "PLAINTEXT"}
    assert load_profile(project, "plaintext").jars == ()
    assert load_profile(project, "msk_iam").jars == (MSK_IAM,)
    assert options(project, "msk_iam") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    }


# What YAML, Jinja and JAAS would each take for something else.
PASSWORDS = {
    'a"quote': r"a\"quote",
    "back\\slash": r"back\\slash",
    'both\\"': r"both\\\"",
    "semi;colon": "semi;colon",
    "12345": "12345",
    "0123": "0123",
    "true": "true",
    "key: value": "key: value",
    "{open": "{open",
    "#all of it": "#all of it",
    "'single": "'single",
    " blanks ": " blanks ",
    "{{ 1 + 1 }}": "{{ 1 + 1 }}",
    "é": "é",
}


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_reaches_kafka_as_it_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("KAFKA_USERNAME", "ann")
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    assert options(project, "scram") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{JAAS} username="ann" password="{PASSWORDS[password]}";',
    }


def test_scram_without_tls_and_with_an_authority_of_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "profiles" / "ca.pem").write_text("an authority")
    who = {"type": "scram", "username": "ann", "password": SECRET}
    weak = {"tls": "{{ env_var('T_TLS') }}", "mechanism": "SCRAM-SHA-256"}
    write(project, weak={**who, **weak}, own={**who, "ca": "ca.pem"})
    monkeypatch.setenv("T_TLS", "false")
    found = options(project, "weak")
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert found["sasl.mechanism"] == "SCRAM-SHA-256"
    found = options(project, "own")
    assert found["ssl.truststore.type"] == "PEM"
    assert found["ssl.truststore.certificates"] == "an authority"


def test_certificates_are_read_from_the_profiles_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("certificate", "key"):
        (project / "profiles" / f"{name}.pem").write_text(f"the {name}")
        monkeypatch.setenv(f"KAFKA_{name.upper()}", f"{name}.pem")
    elsewhere = project / "ca.pem"
    elsewhere.write_text("the ca")
    monkeypatch.setenv("KAFKA_CA", str(elsewhere))
    expected = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the certificate",
        "ssl.keystore.key": "the key",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the ca",
    }
    assert options(project, "mtls") == expected
    own = {"type": "mtls", "certificate": "certificate.pem", "key": "key.pem"}
    write(project, own={**own, "key_password": SECRET})
    assert options(project, "own")["ssl.key.password"] == SECRET
    monkeypatch.setenv("KAFKA_CA", "gone.pem")
    write(project, own={**own, "ca": "gone.pem"})
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.pem") as caught:
        options(project, "own")
    assert "No such file" in str(caught.value) and "profiles/kafka.yml" in str(caught.value)


def test_a_variable_that_is_not_set_is_named(project: Path) -> None:
    with pytest.raises(ConfigError, match="KAFKA_USERNAME isn't set"):
        load_profile(project, "scram")


def test_an_unknown_profile(project: Path) -> None:
    with pytest.raises(ConfigError, match="cannot find the Kafka profile 'scam'") as caught:
        load_profile(project, "scam")
    assert "plaintext, scram, mtls, msk_iam" in str(caught.value)
    assert "did you mean 'scram'" in str(caught.value)


BAD = {
    "no such type": ({"type": SECRET}, "Input tag"),
    "no type": ({"password": SECRET}, "Unable to extract tag"),
    "no user": ({"type": "scram", "password": SECRET}, "username: Field required"),
    "no password": ({"type": "scram", "username": "ann", "password": ""}, "password: String"),
    "a list": ({"type": "scram", "username": "ann", "password": [SECRET]}, "password: Input"),
    "a key too many": (
        {"type": "scram", "username": "ann", "password": SECRET, "secret": SECRET},
        "secret: Extra inputs are not permitted",
    ),
    "a mechanism": (
        {"type": "scram", "username": "ann", "password": SECRET, "mechanism": "PLAIN"},
        "mechanism: Input should be 'SCRAM-SHA-256' or 'SCRAM-SHA-512'",
    ),
    "nothing": (None, "valid dictionary"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_profile_is_refused_without_its_values(project: Path, case: str) -> None:
    profile, why = BAD[case]
    write(project, bad=profile)
    with pytest.raises(ConfigError, match="cannot use the Kafka profile 'bad'") as caught:
        load_profile(project, "bad")
    assert why in str(caught.value) and "profiles/kafka.yml" in str(caught.value)
    if case != "no such type":  # there it's no secret
        assert SECRET not in str(caught.value)


def test_a_mistake_of_the_template_tells_no_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", f"'{SECRET}")
    template = "{{ env_var('KAFKA_PASSWORD') | nothing }}"
    write(project, bad={"type": "scram", "username": "ann", "password": template})
    with pytest.raises(ConfigError, match="No filter named 'nothing'") as caught:
        load_profile(project, "bad")
    assert SECRET not in str(caught.value)


def test_a_typed_value_that_is_no_yaml_tells_no_secret(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T_PASSWORD", f"'{SECRET}")
    write(project, other="{{ env_var('T_PASSWORD') }}")
    with pytest.raises(ConfigError, match="can't be read as YAML") as caught:
        read_rendered(project / "profiles" / "kafka.yml", "Kafka profiles")
    assert SECRET not in str(caught.value) and caught.value.__cause__ is None


def test_plans_and_errors_hide_what_is_secret() -> None:
    (pattern,) = REDACTED.values()
    hidden = {"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"}
    assert all(re.search(pattern, f"kafka.{option}") for option in hidden)
