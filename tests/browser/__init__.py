"""The monitor's page in a real Chromium, beside a running pipeline: ``make browser``."""
