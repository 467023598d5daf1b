"""Maintenance of tables: a policy beside the model, a plan from metadata, and carrying it out."""
