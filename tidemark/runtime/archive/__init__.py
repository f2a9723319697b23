"""The archive service: copies logs to Avro files that outlive Kafka's retention.

May import: runtime.client, runtime.service and everything below.
Start with: task.py; archive.py has the layout of files.
"""
