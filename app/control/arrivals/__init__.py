"""What arrives: which topic partitions speak, how far time has come, and whether accounts of it close."""
