"""The gate's projects, of which nodes are left out."""

from gate.conftest import gated as gated
