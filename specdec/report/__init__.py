"""Views over a verdict: terminal, Markdown and HTML.

``write`` makes the files of one run and ``write_change`` those of two; ``terminal`` prints what they say.
"""

from specdec.report.files import Written, WrittenChange, write, write_change

__all__ = ["Written", "WrittenChange", "write", "write_change"]
