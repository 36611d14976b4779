"""Stream scripts (`*.slt`): sqllogictest with time.  What a script says (format, cells), and what holds of it (runner, compare)."""
