"""Follows texts that part: does the baseline, given the other's first different token, say the same again?"""
