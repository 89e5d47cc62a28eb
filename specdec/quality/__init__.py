"""Does a variant still answer rightly? A small set of tasks with answers that are checked exactly."""
