"""What is hidden, and what is not: every rule once."""

from __future__ import annotations

import pytest

from millstream.core.errors import ParseError, Span
from millstream.core.secrets import Options, hide, hide_in_sql, is_secret_key


@pytest.mark.parametrize(
    "key",
    [
        "password", "PASSWORD", "kafka.ssl.keystore.password", "sslpassword", "passwd", "pwd", "secret", "client_secret", "clientSecret",
        "token", "aws.session.token", "AWS_SECRET_ACCESS_KEY", "fs.s3a.access.key", "apiKey", "api-key", "key", "credentials",
        "kafka.sasl.jaas.config", "ssl.key.passphrase", "basic.auth.user.info",
        "dbpwd", "sslkey", "Authorization", "masterkey", "hmackey", "authkey", "mypass", "DBPASS", "PGPASS", "oauth", "bearer", "sig",
        "mySig", "sas", "sasToken", "X-Amz-Signature", "x-api-key", "sEcReT", "kafka.ssl.keystore.key", "fs.azure.account.key.me", "db_pw",
        "adminToken", "accountPrimaryKey", "passwrod", "pasword", "pssword", "secert", "tokne", "credentail", "autorization", "db.secrt",
    ],
)  # fmt: skip
def test_keys_of_secrets(key: str) -> None:
    assert is_secret_key(key)
    assert Options({key: "x"}).shown() == {key: "***"}


@pytest.mark.parametrize(
    "key",
    [
        "path", "url", "subscribe", "table", "keyspace", "maxFilesPerTrigger", "monkey", "bypass", "kafka.bootstrap.servers",
        "schema", "mode", "user",
        "key.column", "keyColumns", "key_fields", "key.deserializer", "partition.key", "kafka.ssl.keystore.location",
        "kafka.sasl.mechanism",
        "author", "design", "signal", "sensor", "rowsPerSecond", "startingOffsets", "value.format", "header", "sector",
        "select", "taxon", "passThrough", "primaryKey", "foreign_keys", "maxTokens", "min.tokens",
    ],
)  # fmt: skip
def test_keys_of_what_may_be_seen(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://me.blob.core.windows.net/c?sv=2024&sig=aB%2Fc%3D&se=1", "https://me.blob.core.windows.net/c?sv=2024&sig=***&se=1"),
        ("https://host/cb#access_token=s3cret", "https://host/cb#access_token=***"),
        ("https://ghp_s3cret@github.com/me/it", "https://***@github.com/me/it"),
        ("jdbc:oracle:thin:scott/t1g/er@//host:1521/db", "jdbc:oracle:thin:scott/***@//host:1521/db"),
        ("JDBC:Oracle:oci:scott/tiger@host", "JDBC:Oracle:oci:scott/***@host"),
        ("AccountName=me;AccountKey=s3cret==;X=1", "AccountName=me;AccountKey=***;X=1"),
        ('{"user": "me", "password":"it\'s \\"s3cret\\"", "n": 1}', '{"user": "me", "password":"***", "n": 1}'),
        ('{"api_key" : 123, "n": 1}', '{"api_key" : ***, "n": 1}'),
        ('{"credentials": {"id": "a", "value": "s3cret"}}', '{"credentials": ***'),
        (r'{"a": "{\"password\": \"s3cret\"}"}', r'{"a": "{\"password\": \"***'),
        ("X-Header: Bearer eyJhbGciOi.J9", "X-Header: Bearer ***"),
        ("Basic dXNlcjpzM2NyZXQ=", "Basic ***"),
        (r"host=/x user=u password=top,s3cret&tail;more x=1", "host=/x user=u password=*** x=1"),
        (r"host=h password=my\ s3cret x=1", "host=h password=*** x=1"),
        (r"host=h password='it\'s s3cret' x=1", "host=h password=*** x=1"),
        ("user= password=s3cret", "user= password=***"),
        ("jdbc:sqlserver://h;user=u;password={a;s3cret};x=1", "jdbc:sqlserver://h;user=u;password=***;x=1"),
        ("Server=h;Password=my s3cret;x=1", "Server=h;Password=***;x=1"),
        ("Server=h; Password=my s3cret; x=1", "Server=h; Password=***; x=1"),
        ("Password=my s3cret;Server=h", "Password=***"),
        ('Server=h;Password="my; s3cret";x=1', "Server=h;Password=***;x=1"),
        ("https://h/a?password=a;s3cret,b&x=1", "https://h/a?password=***&x=1"),
        ("Authorization: Token s3cret", "Authorization: Token ***"),
        ("Accept: text\nX-Api-Key: s3cret\nHost: h", "Accept: text\nX-Api-Key: ***\nHost: h"),
        ("password: my s3cret", "password: ***"),
        ("https://h:8443/a?x=me@example.com", None),
        ("http://h:80/@me", None),
        ("abfss://container@account.dfs.core.windows.net/x", None),
        ("postgresql://user@host/db", None),
        ("http://host:8080/path?topic=a", None),
        ('{"topic": "a", "key.column": "b", "password": "${env:PW}"}', None),
        ("Authorization: Bearer ${env:PW}", None),
    ],
)  # fmt: skip
def test_secrets_inside_of_values(value: str, shown: str | None) -> None:
    hidden = value if shown is None else shown
    options = Options({"conf": value})
    assert options.shown()["conf"].startswith(hidden)
    assert "s3cret" not in hide_in_sql(f"CREATE SINK o FROM q INTO 'x' OPTIONS (conf '{value.replace(chr(39), chr(39) * 2)}', path '/p')")
    for secret in options.secrets():
        assert hide(f"the server said: {secret}!", options.secrets()) == "the server said: ***!"


def test_what_is_inside_json_is_known_without_its_quotes() -> None:
    assert Options({"conf": '{"password": "hunter2"}'}).secrets() == ["hunter2"]
    assert "hunter2" in Options({"url": "host=h password='hunter2'"}).secrets()


def test_a_reference_to_the_environment_is_no_secret_but_what_it_stands_for_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_PW", "p@ss/word")
    options = Options({"password": "${env:MILLSTREAM_PW}", "url": "postgresql://u:${env:MILLSTREAM_PW}@h/d"})
    assert options.shown() == dict(options)
    assert options.resolved() == {"password": "p@ss/word", "url": "postgresql://u:p%40ss%2Fword@h/d"}
    assert "p@ss/word" in options.secrets()
    assert repr(options.resolved()) == "{'password': '***', 'url': 'postgresql://u:***@h/d'}"
    with pytest.raises(KeyError, match="MILLSTREAM_NOT_THERE"):
        Options({"a": "${env:MILLSTREAM_NOT_THERE}"}).resolved()


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("OPTIONS (url 'postgresql://u:p@h/d', password 'x')", "OPTIONS (url 'postgresql://u:***@h/d', password '***')"),
        ("OPTIONS (url 'postgresql://u:a@b:c/d@h/d')", "OPTIONS (url 'postgresql://u:***@h/d')"),
        ("OPTIONS (url 'postgresql://u:it''s@h/d')", "OPTIONS (url 'postgresql://u:***'"),
        ("OPTIONS (url 'postgresql://h/d?user=u&password=p&x=1')", "OPTIONS (url 'postgresql://h/d?user=u&password=***&x=1')"),
        ("OPTIONS (url 'host=h password=''a b'' user=u')", "OPTIONS (url 'host=h password=***"),
        ("OPTIONS ('kafka.sasl.jaas.config' 'Login required password=\"p\";')", "OPTIONS ('kafka.sasl.jaas.config' '***')"),
        ("OPTIONS (a.secret = 'x', path '/p')", "OPTIONS (a.secret = '***', path '/p')"),
        ("OPTIONS (password /* mine */ 'x', path '/p')", "OPTIONS (password /* mine */ '***', path '/p')"),
        ("OPTIONS (password 123, path '/p')", "OPTIONS (password ***, path '/p')"),
        ("OPTIONS (password forgotten, path '/p')", "OPTIONS (password ***, path '/p')"),
        ("OPTIONS (dbpwd 'x', sslkey 'y', path '/p')", "OPTIONS (dbpwd '***', sslkey '***', path '/p')"),
        ("OPTIONS (Authorization 'Bearer abcdefgh', pasword 'z')", "OPTIONS (Authorization '***', pasword '***')"),
        ("OPTIONS (u 'https://ghp_abc@h', v 'jdbc:oracle:thin:a/b@h')", "OPTIONS (u 'https://***@h', v 'jdbc:oracle:thin:a/***@h')"),
        (r"OPTIONS ('pass\u0077ord' 'x', path '/p')", r"OPTIONS ('pass\u0077ord' '***', path"),
        (r"OPTIONS ('pass\167ord' 'x', path '/p')", r"OPTIONS ('pass\167ord' '***', path"),
        (r"OPTIONS ('p\assword' 'x', path '/p')", r"OPTIONS ('p\assword' '***', path"),
        (r"OPTIONS (url 'host=h pass\u0077ord=abc', path '/p')", "OPTIONS (url '***'"),
        ("OPTIONS (primaryKey 'id', maxTokens 5)", None),
        ("OPTIONS (password 'one' 'two')", "OPTIONS (password '***' '***')"),
        ("OPTIONS (password ('x'))", "OPTIONS (password ('***'))"),
        ("OPTIONS (password, 'x')", "OPTIONS (password, '***')"),
        ("OPTIONS (password 'never closed)", "OPTIONS (password '***"),
        ("OPTIONS (url 'postgresql://u:never closed", "OPTIONS (url 'postgresql://u:***"),
        ("CREATE STREAM s (key STRING, token INT) TIMESTAMP BY ts FROM 'rate'", None),
        ("CREATE STREAM s (key STRING) FROM 'rate' OPTIONS (n 1) PARTITION BY key RETAIN 2 HOURS", None),
        ("OPTIONS (url 'http://host:8080/path', password '${env:PW}')", None),
    ],
)  # fmt: skip
def test_texts_of_statements(sql: str, shown: str | None) -> None:
    sql = sql if sql.startswith("CREATE") else f"CREATE SINK o FROM q INTO 'x' {sql}"
    hidden = hide_in_sql(sql)
    assert hidden.startswith(sql if shown is None else f"CREATE SINK o FROM q INTO 'x' {shown}")


def test_queries_have_columns_called_key() -> None:
    sql = "SELECT key, token FROM trades WHERE key = 'x' AND token = 5"
    assert hide_in_sql(sql) == sql


def test_the_caret_stays_below_its_word() -> None:
    sql = "CREATE SINK o FROM q INTO 'x' OPTIONS (password 'a very long secret', pth '/p')"
    start = sql.index("pth")
    shown = str(ParseError("no", span=Span(start, start + 3), sql=sql)).splitlines()
    assert shown[1][shown[2].index("^") :][: shown[2].count("^")] == "pth"
    start = sql.index("'a very")
    shown = str(ParseError("no", span=Span(start, start + 20), sql=sql)).splitlines()
    assert shown[1][shown[2].index("^") :][: shown[2].count("^")] == "'***'"


def test_messages_are_freed_of_what_they_quote_whole_or_cut_off() -> None:
    secret = "correct horse battery staple"
    assert hide(f"near '{secret}' and '{secret[:12]}...'", [secret]) == "near '***' and '***...'"
    assert hide("the pw ab is in cabin", ["ab"]) == "the pw *** is in cabin"
    assert hide("connection to postgresql://u:pw@h:5/d failed, password=x") == "connection to postgresql://u:***@h:5/d failed, password=***"
