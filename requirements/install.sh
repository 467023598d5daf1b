#!/bin/sh
# Make .venv with the locked versions, then get the jars. `make setup` calls this.
# PYTHON=<interpreter> takes another Python; uv is used where it is on the PATH, else venv and pip.
set -eu

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null &&
        { [ -n "$uv" ] || "$1" -c 'import ensurepip, venv' 2>/dev/null; }
}

uv=$(command -v uv || true)
found=
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
    if fits "$candidate"; then
        found=$candidate
        break
    elif [ "$candidate" = "${PYTHON:-}" ]; then
        break
    fi
done
if [ -z "$found" ]; then
    echo "error: cannot make .venv: no usable Python 3.10-3.13" >&2
    echo "  why: tried ${PYTHON:-python3, python3.13, python3.12, python3.11, python3.10}" >&2
    echo "  fix: install one with its venv module (Debian: python3-venv)," >&2
    echo "       or name one: make setup PYTHON=/path/to/python3" >&2
    exit 1
fi

# In a copy of a checkout, the environment's programs would still run the original.
here=$(pwd -P)
[ "$(cat .venv/.made-in 2>/dev/null)" = "$here" ] || rm -rf .venv
rm -f .venv/.installed

install() {
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --python .venv/bin/python "$@"
    else
        .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"
    fi
}

echo "installing Icegate and its locked dependencies into .venv (some minutes, once) …"
# A home folder that can't be written, as services have it, has no room for uv's cache.
[ -z "$uv" ] || [ -n "${UV_CACHE_DIR:-}" ] || [ -w "${HOME:-/nonexistent}" ] || export UV_NO_CACHE=1
if [ ! -x .venv/bin/python ]; then
    if [ -n "$uv" ]; then "$uv" venv --quiet --python "$found" .venv; else "$found" -m venv .venv; fi
    printf '%s\n' "$here" > .venv/.made-in
fi
install -r requirements/lock.txt
install --no-deps --no-build-isolation -e .
.venv/bin/python -c 'from icegate.java import find_java; find_java()' 2>/dev/null ||
    install -r requirements/java.txt
mkdir -p .icegate
if ! .venv/bin/python -m icegate.session --resolve 2>.icegate/resolve.log; then
    tail -n 3 .icegate/resolve.log >&2  # Ivy says very much before
    echo "  all of it: .icegate/resolve.log" >&2
    exit 1
fi
cp .venv/.made-in .venv/.installed
