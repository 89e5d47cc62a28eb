"""The embedded account with what only tests ask of it: offers, refusals, and a look into the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping

from specdec import atomic
from specdec.rehearsal.emulator import EmbeddedAws
from specdec.rehearsal.emulator.cluster import Manifest
from tests.emulated.answers import OFFERS
from tests.emulated.offers import Offer
from tests.emulated.refusals import REFUSALS


class DrilledAws(EmbeddedAws):
    """An embedded account in which things can be planted."""

    recorder = "tests.emulated.refusals"
    answers = "tests.emulated.answers"

    def recorded_manifests(self, region: str | None = None) -> list[Manifest]:
        """Kubernetes objects that are in the cluster now, in the order they came; of one region, or of
        all.
        """
        regions = [region] if region else list(dict.fromkeys(call.region for call in self.calls()))
        return [manifest for name in regions for manifest in self.cluster(name).objects.values()]

    def refuse(self, refusals: Mapping[str, str]) -> None:
        """From now on, the cluster refuses to create or apply these objects: ``<kind>/<name>`` to its
        message.
        """
        (self.state_dir / REFUSALS).write_text(json.dumps(dict(refusals)), encoding="utf-8")

    def offer(self, offers: Mapping[str, Offer]) -> None:
        """From now on, these regions offer this, whatever they offered before; of all others the account
        knows nothing.
        """
        planted = {region: offer.plain() for region, offer in offers.items()}
        atomic.write(self.state_dir / OFFERS, json.dumps(planted))
