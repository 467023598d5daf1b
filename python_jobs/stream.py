"""Run a stream by spark-submit or from cron: what `icegate stream` takes."""

from __future__ import annotations

import sys

from icegate.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "stream")
    main()
