"""Views over a verdict: terminal, Markdown and HTML."""
