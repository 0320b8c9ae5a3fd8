"""Questions about the stream as a shared space: who uses which dimensions, and whether coordinates mean anything."""
