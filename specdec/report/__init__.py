"""Views over a verdict: terminal, Markdown and HTML.

``write`` makes the files of one run; ``terminal.show`` prints its verdict.
"""

from specdec.report.files import Written, write

__all__ = ["Written", "write"]
