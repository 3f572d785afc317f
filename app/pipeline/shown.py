"""What a running application shows to tools outside: its offsets to those that look at consumer groups, its buckets to the log."""

from __future__ import annotations

from app.config.settings import Settings
from app.control.plane import ControlPlane
from app.delivery.security import client_options
from app.delivery.shadow_offsets import committer
from app.pipeline.batches import Batches


def show_outside(settings: Settings, plane: ControlPlane, batches: Batches) -> None:
    """Begins to; nothing of it can hold up a batch, or fail one."""
    plane.held = lambda: {bucket: f"{holding.owner.host}:{holding.owner.port}" for bucket, holding in batches.holdings().items()}
    if settings.shadow_group is not None:
        plane.start_shadow_group(committer(lambda: client_options(settings.kafka), settings.shadow_group))
