"""What every other folder speaks in: instants, schemas, signed batches, errors.  Imports nothing of ours."""
