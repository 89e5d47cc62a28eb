"""The whole experiment on one machine: embedded AWS, local engines, the product's own code."""
