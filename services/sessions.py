"""Sessions: reads logs, writes panes of session windows."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("sessions")
