"""A run: its records, its manifest, its folder, its place in a bucket, and how it is found."""
