"""How many observed turns a second the extractor judges, with one worker and with two."""
