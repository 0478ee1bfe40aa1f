"""All dashboards, and the files beside this one that Grafana imports. `make golden` writes them."""

from __future__ import annotations

from dashboards import agent, container, fleet, node
from dashboards.model import Dashboard

PAGES: tuple[Dashboard, ...] = (fleet.DASHBOARD, node.DASHBOARD, container.DASHBOARD, agent.DASHBOARD)


def file_name(page: Dashboard) -> str:
    return f"{page.uid}.json"
