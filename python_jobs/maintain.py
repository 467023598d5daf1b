"""Maintain tables as policies say, from cron or by spark-submit: options of `icegate maintain`."""

from __future__ import annotations

import sys

from icegate.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "maintain")
    main()
