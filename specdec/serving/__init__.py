"""What a variant runs: command line, environment and artifact path, as pure functions."""
