# `make` alone prints the targets. All paths are relative: the checkout may lie anywhere.
.DEFAULT_GOAL := help
.PHONY: help setup landing build maintain app report elementary-report doctor demo-bad-data test test-fast test-long test-targets long browser postgres conformance torture kill-stream fuzz-audits fuzz-history \
	conformance-gate lint lint-python lint-types lint-sql lint-yaml bench lock clean

python := .venv/bin/python
installed := .venv/.installed
# sqlfluff sees Jinja there and no SQL: a macro's indentation means nothing to it. Its Jinja doesn't
# know the tag `snapshot`, so snapshots are linted without that line.
macros := macros tests/generic standins src/dbt/include
# Two processes, each with a Spark that serves the tests of whole files. In their order: else files
# with one long test come last, and one process waits for the other.
two_at_once := -n 2 --dist loadfile --no-loadscope-reorder
resolve = $(python) -m uv pip compile --quiet --universal --python-version 3.10 --upgrade --no-annotate --custom-compile-command "make lock"
# A name that begins with _ is what the programs share.
benchmarks = $(filter-out _%,$(notdir $(basename $(wildcard benchmarks/*.py))))

# An environment knows where it was made; in a copy of the checkout it would run the original.
ifneq ($(shell cat $(installed) 2>/dev/null),$(CURDIR))
.PHONY: $(installed)
endif

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

setup: $(installed) ## make .venv with the locked versions, and get the jars; once

$(installed): requirements/install.sh requirements/lock.txt requirements/java.txt pyproject.toml
	@sh requirements/install.sh

landing: $(installed) ## make landing data, when there is none
	@ls "$${ICEGATE_LANDING:-landing}"/*/*/_SUCCESS >/dev/null 2>&1 || $(python) python_jobs/generate_landing.py

build: $(installed) landing ## build and test bronze, silver and gold; ARGS='--select …' go to dbt
	@$(python) python_jobs/run_dbt.py --standins-allowed -- build $(ARGS)

maintain: $(installed) ## compact, expire and clean up where it pays; ARGS='--plan …'
	@$(python) python_jobs/maintain.py $(ARGS)

app: $(installed) ## look at releases, rows and tests in the browser; ARGS='--port …'
	@$(python) -m icegate.cli.main app $(ARGS)

report: $(installed) elementary-report ## make the pages on tables and tests: target/trust.html, and elementary's own
	@$(python) -m icegate.cli.main report

elementary-report: $(installed)
	@$(python) python_jobs/report.py

doctor: $(installed) ## look for what is missing or doesn't fit, with the fix
	@$(python) -m icegate.cli.main doctor

demo-bad-data: $(installed) ## plant bad data, one kind at a time, and show what readers see; ARGS='--faults …'
	@$(python) python_jobs/demo_bad_data.py $(ARGS)

test: $(installed) postgres ## run the tests, in some 20 minutes on 2 cores; ARGS go to pytest
	$(python) -m pytest -m "not long" $(two_at_once) --durations=15 $(ARGS)

test-fast: $(installed) ## run the quick tests, in under 3 minutes
	$(python) -m pytest -m "not slow and not long" $(two_at_once) $(ARGS)

test-long: long conformance-gate ## run conformance, servers, and what installs or breaks things, in under 40 minutes

long: $(installed) browser ## run the same without conformance
	$(python) -m pytest -m "long and not targets" $(two_at_once) --durations=15 $(ARGS)

test-targets: $(installed) postgres ## run what each target has to do, on real servers and a cluster; writes the matrix in docs/targets.md
	$(python) -m pytest -m targets --junitxml=target/targets.xml --durations=15 tests/python/targets $(ARGS); \
	code=$$?; $(python) tests/python/targets/write_matrix.py target/targets.xml docs/targets.md && exit $$code
	$(python) -m pytest -m "not long" $(two_at_once) --catalog postgres tests/python/gate tests/python/writers tests/python/history
	$(python) -m pytest -m "not long" $(two_at_once) --catalog rest tests/python/gate tests/python/history

postgres: ## get a PostgreSQL for the tests of a shared catalog, where there is none and apt is at hand
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || { apt-get -q update && apt-get -q install -y postgresql; } || true

browser: ## get a Chromium for the tests of pages, where there is none and apt is at hand
	@command -v chromium chromium-browser google-chrome >/dev/null || { apt-get -q update && apt-get -q install -y chromium; }

conformance: conformance-gate ## run dbt's own suite for adapters, gate on and off; docs/conformance.md lists what isn't clean
	$(python) -m pytest tests/conformance -n 2 --dist loadscope -p no:cacheprovider

conformance-gate: $(installed) ## the same with the gate on alone, as `make test-long` runs it
	ICEGATE_CONFORMANCE_GATE=1 $(python) -m pytest tests/conformance -n 2 --dist loadscope -p no:cacheprovider

torture: $(installed) ## kill builds in all ways while readers poll main; ARGS="--rounds 10" is CI's size
	$(python) tests/torture $(ARGS)

kill-stream: $(installed) ## kill a stream and its broker in all ways, while 60,000 events come
	ICEGATE_STREAM_EVENTS=60000 $(python) -m pytest -s -m long tests/python/streams/test_kill.py $(ARGS)

fuzz-audits: $(installed) ## compare audits with stock tests on Spark, in 5,000 random cases
	ICEGATE_FUZZ_CASES=$${ICEGATE_FUZZ_CASES:-5000} $(python) -m pytest -s -m long tests/python/audits $(ARGS)

fuzz-history: $(installed) ## compare what changed between versions with a naive program, in 1,000 histories
	ICEGATE_FUZZ_HISTORIES=$${ICEGATE_FUZZ_HISTORIES:-1000} $(python) -m pytest -s -m long tests/python/history $(ARGS)

lint: lint-python lint-types lint-sql lint-yaml ## check style and types of all that is committed

lint-python: $(installed)
	$(python) -m ruff check . && $(python) -m ruff format --check .

lint-types: $(installed)
	$(python) -m mypy src python_jobs

lint-sql: $(installed)
	$(python) -m sqlfluff lint --disable-progress-bar models tests/singular src/icegate/scaffold benchmarks/tpch_project
	$(python) -m sqlfluff lint --disable-progress-bar --exclude-rules LT02 $(macros)
	@for file in snapshots/*.sql; do echo "$$file"; sed -E 's/\{% (end)?snapshot.*%\}//' "$$file" | $(python) -m sqlfluff lint --disable-progress-bar --exclude-rules LT12,LT13,RF04,ST06 - || exit 1; done

lint-yaml: $(installed)
	$(python) -m yamllint --strict .

bench: $(installed) ## measure one claim of speed: NAME=<program in benchmarks/>; ARGS=--quick is smaller
	$(if $(filter $(NAME),$(benchmarks)),,$(error which? make bench NAME=<name>, where <name> is one of: $(or $(benchmarks),(none yet))))
	$(python) benchmarks/$(NAME).py $(ARGS)

lock: $(installed) ## resolve the versions again, after a change of pyproject.toml
	$(resolve) --extra dev --extra report --extra app --extra alerts -o requirements/lock.txt pyproject.toml
	$(resolve) --extra s3 --override requirements/emr7.in -o requirements/emr7.lock pyproject.toml
	$(resolve) -o deploy/airflow/requirements.txt deploy/airflow/requirements.in
	$(resolve) -o deploy/airflow/requirements-emr.txt deploy/airflow/requirements-emr.in
	$(resolve) -o deploy/aws/requirements.txt deploy/aws/requirements.in

clean: ## remove what dbt and the tools wrote; tables, landing data, jars and .venv stay
	rm -rf target logs dist .pytest_cache .ruff_cache .mypy_cache
