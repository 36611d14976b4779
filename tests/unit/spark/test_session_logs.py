"""What Spark's libraries say on the screen."""

from __future__ import annotations

import logging

import pytest

from millstream.spark.session import keep_calls_out_of_logs


def test_ctrl_c_during_a_call_to_the_jvm_is_not_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    keep_calls_out_of_logs()
    root = logging.getLogger()
    for path, message in (
        ("py4j/java_gateway.py", "KeyboardInterrupt while sending command."),
        ("mine.py", "KeyboardInterrupt, says mine"),
    ):
        root.handle(root.makeRecord("root", logging.ERROR, path, 1, message, (), None))
    assert [record.message for record in caplog.records] == ["KeyboardInterrupt, says mine"]
