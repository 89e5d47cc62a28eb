"""Prompts: the shipped sets, and the files that people have."""
