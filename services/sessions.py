"""Sessions: logs in, panes of session windows out."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("sessions")
