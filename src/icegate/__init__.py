"""Sessions, checks and the command line behind the dbt adapter ``icegate``."""

__version__ = "0.1.0"
