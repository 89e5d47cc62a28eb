"""From records to a verdict: parity, significance, acceptance, window and money."""
