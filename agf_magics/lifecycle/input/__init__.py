"""What a run gets of a person: options, input, workers, answers."""
