"""Wait until landing files are complete, as cron does before a load; options of `icegate wait`."""

from __future__ import annotations

import sys

from icegate.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "wait")
    main()
