"""Drawings of the page, as SVG that takes its colours from the style sheet. Pure."""
