"""From a REGISTER statement to a registered query."""

from __future__ import annotations

from millstream.core.errors import MillstreamError
from millstream.core.schema import Field
from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.language.registered_shape import check_registered
from millstream.language.statements import Register
from millstream.psoup.from_plan import planned
from millstream.psoup.query import check
from millstream.runtime.invocations.registered import Registered


def registered_of(statement: Register, number: int, catalog: Catalog) -> Registered:
    try:
        check_registered(statement.select, catalog, statement.text)
        bound = bind_query(statement.select, catalog, statement.text)
        plan = planned(bound, statement.materialise)
        check(plan.query, {stream.name: stream.schema for stream in catalog.streams})
    except MillstreamError as error:
        error.span = error.span or statement.place("select")
        raise error.in_sql(statement.text) from None
    fields = tuple(Field(name, field.type) for name, field in zip(bound.names, bound.plan.schema, strict=True))
    return Registered(number, statement.name, statement.select_text, fields, statement.materialise, plan, bound)
