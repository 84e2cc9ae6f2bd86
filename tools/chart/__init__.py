"""The parts of the chart that follow from the code."""
