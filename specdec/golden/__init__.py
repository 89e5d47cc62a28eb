"""A streaming server whose every time and count is known, to test load generators with: ours and others'."""
