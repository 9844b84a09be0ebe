"""Input of verbs: models, feeds and options of backends."""
