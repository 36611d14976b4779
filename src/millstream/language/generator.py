"""Queries back to text: what CQL adds to Spark's generator.  Statements are printed by printer.py."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from millstream.core.instant import format_duration
from millstream.language.column_names import number_suffix
from millstream.language.nodes import AsOf, StreamWindow, WindowEdge
from millstream.plan.window import instant_text


class CqlGenerator(SparkGenerator):
    TRANSFORMS = {
        **SparkGenerator.TRANSFORMS,
        StreamWindow: lambda self, window: self.streamwindow_sql(window),
        AsOf: lambda self, as_of: self.asof_sql(as_of),
        WindowEdge: lambda self, edge: self.windowedge_sql(edge),
        exp.BitwiseLeftShift: lambda self, shift: self.binary(shift, "<<"),
        exp.BitwiseRightShift: lambda self, shift: self.binary(shift, ">>"),
        exp.Trim: lambda self, trim: self.trim_sql(trim),
        exp.Select: lambda self, select: self.select_sql(select),  # as it was written: QUALIFY stays
    }

    def asof_sql(self, as_of: AsOf) -> str:
        instant = as_of.args.get("instant")
        return "AS OF NOW" if instant is None else f"AS OF {instant_text(instant)}"

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        window = " ".join(filter(None, (self.sql(expression, "stream_window"), self.sql(expression, "as_of"))))
        return super().table_sql(expression, sep=f" {window}{sep}" if expression.alias and window else sep) + (
            f" {window}" if window and not expression.alias else ""
        )

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        window = self.sql(expression, "stream_window")
        if not window:
            return super().subquery_sql(expression, sep=sep)
        if expression.alias:
            return super().subquery_sql(expression, sep=f" {window}{sep}")
        return f"{super().subquery_sql(expression, sep=sep)} {window}"

    def select_sql(self, expression: exp.Select) -> str:
        kind = expression.args.get("to_stream")
        if not kind:
            return super().select_sql(expression)
        distinct = "DISTINCT " if expression.args.get("distinct") else ""
        plain = expression.copy()
        plain.set("to_stream", None)
        plain.set("distinct", None)
        items = ", ".join(self.sql(item) for item in plain.expressions)
        plain.set("expressions", [exp.Var(this=f"{kind.upper()}({distinct}{items})")])
        return super().select_sql(plain)

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        within_us = expression.args.get("within_us")
        if within_us is None:
            return super().join_sql(expression, join_op)
        condition = self.sql(expression, "on")
        columns = self.expressions(expression, key="using", flat=True)
        clause = f" ON {condition}" if condition else f" USING ({columns})" if columns else ""
        return f"{self.seg('ZIPPER JOIN')} {self.sql(expression, 'this')} WITHIN {format_duration(within_us)}{clause}"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        suffix = number_suffix(expression)
        if suffix:
            return f"{expression.this.name}{suffix}"
        if type(expression) is exp.Cast and expression.this.is_string:  # DATE '...'; a written CAST is a TryCast to sqlglot's Spark
            return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
        return super().cast_sql(expression, safe_prefix)

    def trim_sql(self, expression: exp.Trim) -> str:
        position, characters, text = expression.args.get("position"), self.sql(expression, "expression"), self.sql(expression, "this")
        if position:
            return f"TRIM({position} {characters}{' ' if characters else ''}FROM {text})"
        return f"TRIM({characters}, {text})" if characters else f"TRIM({text})"

    def streamwindow_sql(self, window: StreamWindow) -> str:
        match window.args["kind"]:
            case "range":
                text = f"RANGE {format_duration(window.args['range_us'])}"
                text += " EXCLUSIVE" if window.args.get("exclusive") else ""
                slide_us = window.args.get("slide_us")
                text += f" SLIDE {format_duration(slide_us)}" if slide_us is not None else ""
            case "rows":
                keys = self.expressions(window, key="partition_by", flat=True)
                text = f"{f'PARTITION BY {keys} ' if keys else ''}ROWS {window.args['rows']}"
                range_us = window.args.get("range_us")
                text += f" RANGE {format_duration(range_us)}" if range_us is not None else ""
            case "between":
                text = f"BEGIN {self.sql(window, 'begin')} END {self.sql(window, 'end')}"
            case kind:
                text = str(kind).upper()
        return f"[{text}]"

    def windowedge_sql(self, edge: WindowEdge) -> str:
        if edge.args.get("instant") is not None:
            return instant_text(edge.args["instant"])
        back_us = edge.args["back_us"]
        return f"NOW - {format_duration(back_us)}" if back_us else "NOW"
