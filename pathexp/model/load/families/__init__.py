"""Architectures as transformers saves them: configuration keys and tensor names to ours."""
