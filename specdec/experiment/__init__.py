"""The experiment: its fields, how it is read, and the checks across fields."""
