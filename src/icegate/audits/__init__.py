"""Audits: prove what a test asks as cheaply as can be, and say the same as Spark would."""
