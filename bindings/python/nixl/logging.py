# SPDX-License-Identifier: Apache-2.0
"""The logger "nixl" and its children: lines on the standard output, from INFO on.

NIXL_LOG_LEVEL (TRACE, DEBUG, INFO, WARN, ERROR, FATAL) sets the level here and in the library; NIXL_DEBUG_LOGGING=1
means DEBUG. A program that configures the logger "nixl" itself before the import is left alone.
"""
import logging
import os
import sys

TRACE = 5
FORMAT = "%(asctime)s NIXL %(levelname)-7s %(filename)s:%(lineno)d %(message)s"
DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
}

LOGGING_CONFIG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"nixl": {"format": FORMAT, "datefmt": DATE_FORMAT}},
    "handlers": {"nixl": {"class": "logging.StreamHandler", "formatter": "nixl", "stream": "ext://sys.stdout"}},
    "loggers": {"nixl": {"handlers": ["nixl"], "level": "INFO", "propagate": False}},
}


class _Stdout(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what sys.stdout is at that moment, so that redirection works."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):  # type: ignore[no-untyped-def]
        return sys.stdout


def set_log_level_by_env() -> None:
    """Takes the level from NIXL_LOG_LEVEL or NIXL_DEBUG_LOGGING; an unknown word is told and left out."""
    logger = logging.getLogger("nixl")
    name = os.environ.get("NIXL_LOG_LEVEL", "").strip().upper()
    if name:
        if name in _LEVELS:
            logger.setLevel(_LEVELS[name])
            logger.debug("Log level %s, from NIXL_LOG_LEVEL", name)
        else:
            logger.warning("NIXL_LOG_LEVEL=%s is none of %s: it is left out", name, ", ".join(sorted(_LEVELS)))
    elif os.environ.get("NIXL_DEBUG_LOGGING", "").strip().lower() in ("1", "y", "yes", "on", "true"):
        logger.setLevel(logging.DEBUG)


def setup_logging() -> None:
    """Gives the logger "nixl" its handler and level, once."""
    logging.addLevelName(TRACE, "TRACE")
    logger = logging.getLogger("nixl")
    if not logger.handlers:
        handler = _Stdout()
        handler.setFormatter(logging.Formatter(FORMAT, DATE_FORMAT))
        logger.addHandler(handler)
        logger.propagate = False
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    set_log_level_by_env()


def get_logger(name: str) -> logging.Logger:
    """The logger "nixl.<name>"; leading underscores of the name are dropped."""
    return logging.getLogger("nixl." + name.lstrip("_"))


setup_logging()
