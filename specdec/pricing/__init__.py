"""What an experiment will cost and how fast it may be, from the catalogue alone: nobody is asked."""
