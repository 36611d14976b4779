"""Millstream: continuous queries in CQL on Spark, exact at every instant.

The public surface is api.py's.  It is loaded when first used: workers import parts of this package in every process
that they start, and must not pay for what only the driver needs.  Nor need the small process that Spark starts for them
(spark/daemon.py) know our errors.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.api import Change, Database, Query, RegisteredQuery, StreamInfo, connect
    from millstream.core.errors import (
        BindError,
        ConfigError,
        ExecutionError,
        InternalError,
        MillstreamError,
        ParseError,
        PlanError,
    )
    from millstream.runtime.demand import Demand
    from millstream.runtime.feed import Feed
    from millstream.runtime.sensor_proxy import SensorProxy

__all__ = [
    "BindError",
    "Change",
    "ConfigError",
    "Database",
    "Demand",
    "ExecutionError",
    "Feed",
    "InternalError",
    "MillstreamError",
    "ParseError",
    "PlanError",
    "Query",
    "RegisteredQuery",
    "SensorProxy",
    "StreamInfo",
    "connect",
]


_ERRORS = ("BindError", "ConfigError", "ExecutionError", "InternalError", "MillstreamError", "ParseError", "PlanError")
_ELSEWHERE = {
    "Demand": "runtime.demand",
    "Feed": "runtime.feed",
    "SensorProxy": "runtime.sensor_proxy",
    **dict.fromkeys(_ERRORS, "core.errors"),
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(f"millstream.{_ELSEWHERE.get(name, 'api')}"), name)
    raise AttributeError(f"module 'millstream' has no attribute {name!r}")
