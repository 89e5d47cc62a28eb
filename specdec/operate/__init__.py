"""Day-to-day moves on a deployed experiment: nodes up and down, runs, a copy into another region."""
