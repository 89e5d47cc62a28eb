"""The subcommands, one module each, imported only when used: starting a benchmark must not pay for the CDK or
for plots.

A module ``specdec/commands/<name>.py`` holds one ``click`` command called ``command``.
"""
