"""Prompts, load, the streaming client and the records they leave."""
