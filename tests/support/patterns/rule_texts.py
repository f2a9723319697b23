"""The text of rules as users write it."""

import json
from typing import Any

HOT = {"name": "hot", "where": "celsius > 80"}
SMOKE = {"name": "smoke", "where": "kind == 'smoke'"}


def text(*steps: Any, within: str = "10m", **members: Any) -> str:
    """Return a rule, by default one of heat and smoke."""
    return json.dumps({"version": 1, "within": within, "steps": steps or [HOT, SMOKE], **members})
