"""Forget a person: find the rows of a subject in each file of the lake, take them out, certify."""
