"""Personal data doesn't reach a model tagged `public`, but by a masking macro or a declaration."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from conftest import ROOT, DbtProject

from gate.gated import GatedProject

pytestmark = pytest.mark.slow

PEOPLE = """
{{ config(materialized='table') }}
select 1 as id, 'jane@example.com' as email, '+1-415-555-0142' as phone, 'Rome' as city,
    map('city', 'Rome') as address, named_struct('zip', '00100') as place
"""
# Undeclared columns on the way, under other names.
CONTACTS = "select id, email as contact, phone, city, address, place from {{ ref('people') }}"
BY_PYTHON = """
def model(dbt, session):
    dbt.config(materialized="table")
    return dbt.ref("contacts")
"""
KINDS = {"email": "email", "phone": "phone", "address": "address", "place": "address"}
LEAKS = {
    "renamed": "select contact as c from {{ ref('contacts') }}",
    "function": "select upper(contact) as c from {{ ref('contacts') }}",
    "no_name": "select upper(contact) from {{ ref('contacts') }}",
    "star": "select * from {{ ref('contacts') }}",
    "star_except": "select * except (phone, address, place) from {{ ref('contacts') }}",
    "cte": "with c as (select * from {{ ref('contacts') }}) select x.contact from c as x",
    "joined": """
        select a.id, b.contact as c
        from {{ ref('people') }} as a join {{ ref('contacts') }} as b on a.id = b.id""",
    "second_of_union": """
        select 'none' as c union all select contact from {{ ref('contacts') }}""",
    "masked_in_one_of_union": """
        select {{ mask('contact') }} as c from {{ ref('contacts') }}
        union all select contact from {{ ref('contacts') }}""",
    "smallest": "select min(contact) as c from {{ ref('contacts') }}",
    "first": "select first_value(contact) over (order by id) as c from {{ ref('contacts') }}",
    "subquery": "select id, (select max(contact) from {{ ref('contacts') }}) as c "
    "from {{ ref('people') }}",
    "exploded": "select c from {{ ref('contacts') }} lateral view explode(array(contact)) as c",
    "lambda_function": """
        select transform(array(contact), x -> upper(x)) as c from {{ ref('contacts') }}""",
    "as_json": "select to_json(struct(id, contact)) as c from {{ ref('contacts') }}",
    "element": "select address['city'] as c from {{ ref('contacts') }}",
    "field": "select place.zip as c from {{ ref('contacts') }}",
    "condition": "select if(contact like 'j%', 1, 0) as c from {{ ref('contacts') }}",
    "beside_its_mask": """
        select concat({{ mask('phone') }}, contact) as c from {{ ref('contacts') }}""",
    "masked_elsewhere": """
        select contact from {{ ref('contacts') }} where {{ mask('contact') }} > ''""",
    "comment": "select contact /* icegate: masked */ as c from {{ ref('contacts') }}",
    "literal": "select contact as c, 'icegate: masked' as note from {{ ref('contacts') }}",
    "default": "select coalesce('icegate: masked', contact) as c from {{ ref('contacts') }}",
    "spelled_out": "select email as c from {{ target.schema }}.people",
    "through_no_name": "select `upper(contact)` as c from {{ ref('unnamed') }}",
    "through_ephemeral": "select c from {{ ref('fleeting') }}",
    "through_python": "select id, contact as c from {{ ref('by_python') }}",
    "through_snapshot": "select contact as c from {{ ref('history') }}",
    "promised": "select contact as promised from {{ ref('contacts') }}",
    "not_understood": "from {{ ref('contacts') }} |> select contact as c |> drop nothing",
}
FINE = {
    "counted": "select count(contact) as n, count(distinct phone) as m from {{ ref('contacts') }}",
    "known": "select contact is null as is_unknown, id from {{ ref('contacts') }}",
    "numbered": """
        select id, row_number() over (partition by contact order by phone) as n
        from {{ ref('contacts') }}""",
    "masked": """
        select {{ mask('contact') }} as c, {{ generalise('id', width=10) }} as band
        from {{ ref('contacts') }} where contact like 'j%' order by phone""",
    "hashed": "{{ config(materialized='table') }} select upper({{ keyed_hash('phone') }}) as c "
    "from {{ ref('contacts') }}",
    "masked_before": "select c from {{ ref('masked') }}",
    "coarse": "select city from {{ ref('contacts') }}",
    "declared_before": "select zone as c from {{ ref('zones') }}",
}


@pytest.fixture
def shop(project: DbtProject) -> DbtProject:
    shutil.copytree(ROOT / "macros" / "anonymise", project.folder / "macros")
    project.configure(models={"+materialized": "view", "t": {"out": {"+tags": ["public"]}}})
    project.write("models/people.sql", PEOPLE)
    project.write("models/contacts.sql", CONTACTS)
    project.write("models/zones.sql", "select phone as zone from {{ ref('contacts') }}")
    project.write("models/unnamed.sql", "select upper(contact) from {{ ref('contacts') }}")
    project.write(
        "models/fleeting.sql",
        "{{ config(materialized='ephemeral') }} select city as c from {{ ref('people') }}",
    )
    project.write("models/by_python.py", BY_PYTHON)
    project.write(
        "snapshots/history.sql",
        "{% snapshot history %}{{ config(unique_key='id', strategy='check', check_cols='all') }}"
        "select id, contact from {{ ref('contacts') }}{% endsnapshot %}",
    )
    described = [
        {"name": "people", "columns": [pii(name, kind) for name, kind in KINDS.items()]},
        {"name": "zones", "columns": [pii("zone", False)]},
        {"name": "fleeting", "columns": [pii("c", "address")]},
        {"name": "promised", "columns": [pii("promised", False)]},
    ]
    project.write_yaml("models/m.yml", {"models": described})
    return project


def pii(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "config": {"meta": {"pii": kind}}}


def test_what_counts_as_reaching_and_what_doesnt(shop: DbtProject) -> None:
    for name, sql in {**LEAKS, **FINE}.items():
        shop.write(f"models/out/{name}.sql", sql)
    run = shop.dbt("build")
    reached = {name for name in LEAKS if "personal data reaches it" in run.message[name]}
    assert reached == set(LEAKS), run.text
    assert {name: run.status[name] for name in FINE} == dict.fromkeys(FINE, "success"), run.text
    views = shop.spark.sql(f"show views in {shop.schema}").collect()
    assert not {view.viewName for view in views} & {*LEAKS}


def test_a_seed_for_the_public_is_judged_by_its_own_columns(shop: DbtProject) -> None:
    described = []
    for name, kind in (("addresses", "email"), ("senders", False)):
        shop.write(f"seeds/{name}.csv", "id,email\n1,shop@example.com\n")
        public = {"name": name, "config": {"tags": ["public"]}, "columns": [pii("email", kind)]}
        described.append(public)
    shop.write_yaml("seeds/s.yml", {"seeds": described})
    run = shop.dbt("seed")
    assert run.status == {"addresses": "error", "senders": "success"}, run.text
    assert "email says of itself `pii: email`" in run.message["addresses"]


def test_the_message_names_the_whole_way_and_what_to_do(shop: DbtProject) -> None:
    shop.write("models/out/star.sql", LEAKS["star"])
    run = shop.dbt("build", "--select", "+star")
    s = shop.schema
    assert (
        run.message["star"]
        .split("\n", 1)[1]
        .strip()
        .startswith(
            f"cannot write {s}.star: it is tagged `public`, and personal data reaches it\n"
            f"    why: contact comes from {s}.contacts.contact from {s}.people.email; "
            f"phone comes from {s}.contacts.phone from {s}.people.phone; "
        )
    ), run.message["star"]
    assert "fix: mask it by a macro of macros/anonymise" in run.message["star"]


def test_a_command_that_leaves_out_what_lies_between_sees_the_same(shop: DbtProject) -> None:
    shop.write("models/out/renamed.sql", LEAKS["renamed"])
    shop.write("models/out/masked.sql", FINE["masked"])
    shop.dbt("build", "--exclude", "path:models/out")
    run = shop.dbt("run", "--select", "path:models/out")
    assert run.status == {"renamed": "error", "masked": "success"}, run.text
    assert f"{shop.schema}.people.email" in run.message["renamed"]


def test_of_a_python_model_its_author_says_what_it_holds(shop: DbtProject) -> None:
    shop.write("models/out/public_by_python.py", BY_PYTHON)
    run = shop.dbt("build", "--select", "+public_by_python")
    assert "contact comes from" in run.message["public_by_python"]
    columns = [pii(name, False) for name in ("contact", "phone", "address", "place")]
    described = [{"name": "public_by_python", "columns": columns}]
    shop.write_yaml("models/out/m.yml", {"models": described})
    run = shop.dbt("build", "--select", "+public_by_python")
    assert run.status["public_by_python"] == "success", run.text


def test_behind_the_gate_the_rest_is_published_and_a_late_declaration_counts(
    gated: GatedProject,
) -> None:
    gated.configure(models={"+materialized": "table", "+skip_unchanged": True})
    gated.write("models/people.sql", PEOPLE)
    gated.write("models/contacts.sql", CONTACTS)
    gated.write("models/out.sql", "{{ config(tags=['public']) }} " + LEAKS["renamed"])
    assert gated.dbt("build").ok
    assert gated.seen("out") == [("jane@example.com",)]
    described = [{"name": "people", "columns": [pii("email", True)]}]
    gated.write_yaml("models/m.yml", {"models": described})
    run = gated.dbt("build")  # nothing else has changed
    assert not run.ok and "personal data reaches it" in run.message["out"]
    assert run.status["contacts"] == "success"
