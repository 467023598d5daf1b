"""The gate: a build writes to branches, and readers see them only once their tests passed."""
