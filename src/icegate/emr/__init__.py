"""Builds as jobs of EMR Serverless: what a job is given, and how it's followed."""
