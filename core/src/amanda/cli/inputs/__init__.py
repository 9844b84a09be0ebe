"""What verbs read: models, feeds and options of backends."""
