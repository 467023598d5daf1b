"""The dbt adapter ``icegate``: dbt-spark, made right for Iceberg."""

import atexit
import gc

from dbt.adapters.base import AdapterPlugin

from dbt.adapters.icegate.connections import IcegateConnectionManager
from dbt.adapters.icegate.credentials import IcegateCredentials
from dbt.adapters.icegate.impl import IcegateAdapter
from dbt.adapters.icegate.relation import IcegateRelation
from dbt.include import icegate

__all__ = [
    "IcegateAdapter",
    "IcegateConnectionManager",
    "IcegateCredentials",
    "IcegateRelation",
    "Plugin",
]

# What is imported by now stays until the end. Python would look through all of it for garbage again
# and again, and once more when it ends: together a second of a small run.
gc.freeze()
atexit.register(gc.freeze)

Plugin = AdapterPlugin(
    adapter=IcegateAdapter,  # type: ignore[arg-type]
    credentials=IcegateCredentials,
    include_path=icegate.PACKAGE_PATH,
    dependencies=["spark"],  # macros named spark__… of other packages are found through it
)
