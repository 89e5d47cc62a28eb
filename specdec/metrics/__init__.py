"""The metrics of the exact lane, one module each."""
