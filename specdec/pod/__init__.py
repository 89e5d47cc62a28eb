"""What runs in the benchmark pod: waits for the services, measures both lanes, publishes, and leaves the run
in the bucket.
"""
