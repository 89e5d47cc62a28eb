"""The sections of a report, grouped by what they are about."""
