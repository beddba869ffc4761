"""What a million turns cost: linking, recording, every listing, and the disk."""
