"""What a job of these tests runs: `dbt …` or `icegate …`, in the process of spark-submit's."""

import sys

if __name__ == "__main__":
    del sys.argv[0]
    if sys.argv[0] == "dbt":
        from dbt.cli.main import cli

        cli(prog_name="dbt")
    else:
        from icegate.cli.main import main

        main()
