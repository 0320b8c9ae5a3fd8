"""Questions about one prediction: what adds up to it, along which edges, at which depth."""
