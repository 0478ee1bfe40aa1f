"""The report as one page of HTML, and drawings as SVG. Pure: values to text, without rich."""
