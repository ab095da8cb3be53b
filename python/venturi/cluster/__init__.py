"""A trial on several hosts: streams shared out, lined up, started together, merged into one record."""
