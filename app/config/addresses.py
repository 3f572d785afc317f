"""Where a checkpoint is: a folder, or a prefix in an S3 bucket, from the one text that a person writes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

WORKS = "what works: a folder (/data/checkpoint, file:/data/checkpoint) and an S3 bucket (s3a://bucket/path)"
S3_SCHEMES = ("s3", "s3a")
"""They mean the same here: Hadoop's file system for S3 is called ``s3a``, everybody else says ``s3``."""
S3_OPTIONS = ("endpoint_override", "region", "scheme")


@dataclass(frozen=True, slots=True)
class FolderAddress:
    """A folder of this machine or of a volume that it mounts."""

    path: str

    @property
    def uri(self) -> str:
        """What `app.storage.open.open_store` takes."""
        return self.path

    @property
    def hadoop_uri(self) -> str:
        """What Spark takes."""
        return self.path


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A prefix in an S3 bucket; no credentials in here: they come from the usual environment variables.

    Attributes:
        bucket: name of the bucket.
        prefix: without slashes around it; may be empty.
        endpoint: ``scheme://host:port`` of a server that is not Amazon's; it is asked path-style.
        region: where the bucket is; without it, the usual environment variables and files say.
    """

    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None

    @property
    def uri(self) -> str:
        """What `app.storage.open.open_store` takes: everything that a process needs besides credentials.

        >>> BucketAddress("b", "x", "http://minio:9000", "eu-1").uri
        's3://b/x?scheme=http&endpoint_override=minio%3A9000&region=eu-1'
        """
        options: dict[str, str] = {}
        if self.endpoint:
            options["scheme"], _, options["endpoint_override"] = self.endpoint.partition("://")
        if self.region:
            options["region"] = self.region
        return f"s3://{self.bucket}/{self.prefix}" + (f"?{urlencode(options)}" if options else "")

    @property
    def hadoop_uri(self) -> str:
        """What Spark takes; endpoint and region are settings of its own.

        >>> BucketAddress("b", "x", "http://minio:9000").hadoop_uri
        's3a://b/x'
        """
        return f"s3a://{self.bucket}/{self.prefix}"


Address = FolderAddress | BucketAddress


def parse_address(text: str) -> Address:
    """Reads the text of a person, or what `uri` gave.

    >>> parse_address("file:///data/checkpoint"), parse_address("relative/checkpoint").uri
    (FolderAddress(path='/data/checkpoint'), 'relative/checkpoint')
    >>> parse_address("s3a://b/x/y/?endpoint_override=minio:9000&scheme=http")
    BucketAddress(bucket='b', prefix='x/y', endpoint='http://minio:9000', region=None)

    Raises:
        ValueError: it is nothing of what works here.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or (scheme != "file" and not rest.startswith("//")):
        if not text:
            raise ValueError(f"an empty path is no place; {WORKS}")
        return FolderAddress(text)
    if scheme == "file":
        return FolderAddress(_path_of(text))
    if scheme in S3_SCHEMES:
        return _bucket(text)
    raise ValueError(f"{scheme}:// is no place for a checkpoint; {WORKS}")


def _path_of(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError(f"{text} names no folder of this machine: a file: URI has an absolute path, file:/data/checkpoint")
    return parts.path


def _bucket(text: str) -> BucketAddress:
    parts = urlsplit(text)
    if "@" in parts.netloc:
        raise ValueError("no credentials in the path: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the pod a role")
    if not parts.netloc:
        raise ValueError(f"{text} names no bucket: s3a://bucket/path")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := sorted(options.keys() - set(S3_OPTIONS)):
        raise ValueError(f'unknown option "{unknown[0]}" in the path; known: {", ".join(S3_OPTIONS)}')
    endpoint = options.get("endpoint_override")
    if endpoint and "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    return BucketAddress(parts.netloc, parts.path.strip("/"), endpoint, options.get("region"))
