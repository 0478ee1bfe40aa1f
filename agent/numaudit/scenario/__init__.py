"""Scenarios: pods on a machine that is only described, step by step, and why each is admitted or refused."""
