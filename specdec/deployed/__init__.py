"""The stack that exists: clients, status, outputs, bucket, and what is left of it."""
