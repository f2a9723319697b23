"""Monitor: the stats topic in, a status page and JSON out.  Never a part of the data path."""

from tidemark.errors import ConfigurationError
from tidemark.plan import Plan
from tidemark.runtime.config import Config
from tidemark.runtime.service import serve


def run(config: Config, plan: Plan) -> None:
    """Run the monitor, if what it needs is installed."""
    try:
        from tidemark.monitor import app
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'tidemark-streams[monitor]'"
        ) from None
    app.run(config, plan)


def main() -> None:
    """Run the service until it is told to stop."""
    serve("monitor", run)


if __name__ == "__main__":
    main()
