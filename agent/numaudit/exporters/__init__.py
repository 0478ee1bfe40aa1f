"""For machines: the catalogue of metrics, and the formats that carry them."""
