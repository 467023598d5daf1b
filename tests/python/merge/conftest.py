"""The gate's projects, into which batches are merged."""

from gate.conftest import gated as gated
