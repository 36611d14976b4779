"""What papers measured, measured again with this engine: a folder for each paper."""
