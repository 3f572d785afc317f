"""What a running application shows to tools outside: its offsets to those that look at consumer groups, its buckets to the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.config.settings import Settings
from app.control.plane import ControlPlane
from app.control.shadow_group import ShadowGroup
from app.delivery.security import shipped_consumer_options
from app.delivery.shadow_offsets import committer
from app.pipeline.batches import Batches


@contextmanager
def shown_outside(settings: Settings, plane: ControlPlane, batches: Batches) -> Iterator[None]:
    """For as long as the block runs; nothing of it can hold up a batch, or fail one."""
    plane.held = lambda: {bucket: f"{holding.owner.host}:{holding.owner.port}" for bucket, holding in batches.holdings().items()}
    if settings.shadow_group is None:
        yield
        return
    group = ShadowGroup(committer(shipped_consumer_options(settings.kafka), settings.shadow_group), plane.metrics)
    plane.show_offsets = group.tell
    try:
        yield
    finally:
        group.stop()
