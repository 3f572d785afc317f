"""Where state is kept: whole files under relative names, on a disk, a shared volume, or in an S3 bucket.

One small interface (`store`), two implementations (`posix`, `objects`), one door (`open`), and one framing for every stored thing (`frames`).
Knows nothing of what is stored, of Spark or Kafka; reads no clock: what is old is told by the file system's own time.
"""
