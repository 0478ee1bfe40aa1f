"""All dashboards, and the files beside this one that Grafana imports. `make golden` writes them."""

from __future__ import annotations

import json

from dashboards import agent, container, fleet, node
from dashboards.model import Dashboard

PAGES: tuple[Dashboard, ...] = (fleet.DASHBOARD, node.DASHBOARD, container.DASHBOARD, agent.DASHBOARD)


def file_name(page: Dashboard) -> str:
    return f"{page.uid}.json"


def written(page: Dashboard) -> str:
    return json.dumps(page.to_json(), indent=1) + "\n"
