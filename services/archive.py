"""Archive: copies logs to files that outlive Kafka's retention."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("archive")
