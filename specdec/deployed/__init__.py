"""The stack that exists: clients, status, outputs, and what its bucket holds."""
