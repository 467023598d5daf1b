#!/bin/sh
# What a container of deploy/Dockerfile runs: a command of icegate, or dbt or python themselves.
set -eu

# The volume that keeps the lake begins empty, and jars are looked for beside the catalog. A link
# leads to those of the image that runs, also after an update.
jars="$ICEGATE_HOME/ivy"
if [ ! -e "$jars" ] && ! ln -sfn /opt/icegate/ivy "$jars" 2>/dev/null; then
    echo "error: cannot use $ICEGATE_HOME" >&2
    echo "  why: user $(id -u), which this container runs as, can't write there" >&2
    echo "  fix: give it that folder: chown $(id -u) on the host, fsGroup in Kubernetes" >&2
    exit 2
fi

case "${1:-}" in
    dbt | python) exec "$@" ;;
    *) exec icegate "$@" ;;
esac
