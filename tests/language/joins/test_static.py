"""Static tables as users write them, in process."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest

from tests.support.clicks import numbered_clicks
from tests.support.mistakes import refused
from tidemark import Pipeline, col, count, field, tumbling
from tidemark.errors import ConfigurationError
from tidemark.plan.explain import render_text
from tidemark.testing import InProcess

USER = {"user": int, "name": str}


def shop(address, *, how="left", schema=USER, **options):
    """Return a pipeline that joins clicks with a static table of users."""
    pipeline = Pipeline("shop", partitions=2)
    clicks = numbered_clicks(pipeline)
    users = pipeline.static("users", str(address), key="user", schema=schema, **options)
    clicks.key_by("user").join(users, how=how).to("named")
    return pipeline


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("user,name\n1,Ann\n2,Bob\n", "utf-8")
    return path


def click(run, *rows):
    run.send("clicks", *({"user": user, "at": at} for user, at in rows))


def load_again(run, path, text):
    run.crash("ingest")
    path.write_text(text, "utf-8")
    run.restart("ingest")


def found(run, column="name"):
    return sorted((row["user"], row["at"], row[column]) for row in run.published("named"))


def test_rows_of_any_time_get_the_rows_of_the_file(users):
    run = InProcess(shop(users), now_ms=5_000)
    click(run, (1, -8_000_000), (2, 0), (3, 10), (1, 20), (0, 21))
    assert found(run) == [(1, -8_000_000, "Ann"), (1, 20, "Ann"), (2, 0, "Bob"), (3, 10, None)]


def test_the_clock_of_the_table_is_never_waited_for(users):
    run = InProcess(shop(users), now_ms=5_000, raw_partitions=2)
    click(run, (1, 1_000))
    run.send("clicks", {"user": 0, "at": 9_000}, partition=1)
    click(run, (0, 2_000))
    assert found(run) == [(1, 1_000, "Ann")]


def test_a_changed_row_counts_from_its_load_on(users):
    run = InProcess(shop(users), now_ms=5_000)
    click(run, (1, 1_000), (1, 2_000))
    load_again(run, users, "user,name\n1,Anna\n3,Cy\n")
    click(run, (1, 4_999), (2, 4_999), (3, 4_999), (1, 5_000), (2, 5_000), (3, 5_000), (0, 6_000))
    assert found(run) == [
        (1, 1_000, "Ann"),
        (1, 2_000, "Ann"),
        (1, 4_999, "Ann"),
        (1, 5_000, "Anna"),
        (2, 4_999, "Bob"),
        (2, 5_000, None),
        (3, 4_999, None),
        (3, 5_000, "Cy"),
    ]


def test_a_load_behind_the_clock_changes_no_final_answer(users):
    run = InProcess(shop(users), now_ms=5_000)
    click(run, (1, 7_000), (1, 8_000))
    load_again(run, users, "user,name\n1,Anna\n")
    click(run, (1, 8_001), (0, 9_000))
    assert found(run) == [(1, 7_000, "Ann"), (1, 8_000, "Anna"), (1, 8_001, "Anna")]


def test_a_row_that_does_not_fit_is_a_dead_letter_once(users):
    users.write_text('user,name,age\n1,Ann,30\n\n2,"B\nob",x\n,No,1\n3,Cy\n4,Di,4\n', "utf-8")
    run = InProcess(shop(users, schema={**USER, "age": int}), now_ms=5_000)
    run.crash("ingest")
    run.restart("ingest")
    letters = run.dead_letters()
    values = [each["value"].split(",") for each in letters]
    places = [part for value in values for part in value if part.startswith("users.csv:")]
    assert places == ["users.csv:4", "users.csv:6", "users.csv:7"]
    assert letters[0]["reason"] == "column age: expected int, got 'x'"
    click(run, (1, 0), (4, 0), (2, 0), (0, 1))
    assert found(run, "age") == [(1, 0, 30), (2, 0, None), (4, 0, 4)]


@pytest.mark.parametrize(("line", "count"), [("1,Ann,x", 3), ("1", 1)])
def test_a_line_with_another_number_of_fields_is_a_dead_letter_in_its_own_names(users, line, count):
    users.write_text(f"user,name\n{line}\n2,Bob\n", "utf-8")
    (letter,) = InProcess(shop(users)).dead_letters()
    assert letter["reason"] == f"row 1 has {count} fields, not 2: user, name"


def test_fields_of_tsv_are_apart_by_tabulators(users):
    path = users.with_suffix(".tsv")
    path.write_text("user\tname\n1\tLee, Ann\n", "utf-8")
    run = InProcess(shop(path))
    click(run, (1, 0), (0, 1))
    assert found(run) == [(1, 0, "Lee, Ann")]
    path.write_text("user,name\n1,Ann\n", "utf-8")
    run = InProcess(shop(path, delimiter=","))
    click(run, (1, 0), (0, 1))
    assert found(run) == [(1, 0, "Ann")]


def test_of_rows_with_one_key_the_last_counts(users):
    users.write_text("user,name\n1,Ann\n2,Bob\n1,Anna\n", "utf-8")
    run = InProcess(shop(users, how="inner"))
    click(run, (1, 0), (9, 0), (0, 1))
    assert found(run) == [(1, 0, "Anna")]


def test_columns_have_other_names_in_the_file(users):
    users.write_text("id;full name\n1;Ann\n", "utf-8")
    schema = {"user": field("id", int), "name": field(["full name"], str)}
    run = InProcess(shop(users, schema=schema, delimiter=";"))
    click(run, (1, 0), (0, 1))
    assert found(run) == [(1, 0, "Ann")]


def test_rows_of_parquet(tmp_path):
    path = tmp_path / "users.parquet"
    frame = pl.DataFrame({"user": [1, 2], "name": ["Ann", None], "other": [[1], [2]]})
    frame.write_parquet(path)
    run = InProcess(shop(path))
    click(run, (1, 0), (2, 0), (0, 1))
    assert found(run) == [(1, 0, "Ann"), (2, 0, None)]


@pytest.fixture
def crm(tmp_path):
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database:
        database.execute("create table users (id integer, name text, gone integer, photo blob)")
        database.execute("insert into users values (1, 'Ann', 0, x'00ff'), (2, 'Bob', 1, null)")
        database.commit()
    return f"sqlite:{tmp_path}/crm.db"


def test_rows_of_a_query(crm):
    """Columns that the schema does not name are not read."""
    query = "select id as user, * from users where not gone"
    run = InProcess(shop(crm, query=query))
    click(run, (1, 0), (2, 0), (0, 1))
    assert found(run) == [(1, 0, "Ann"), (2, 0, None)]


def test_bytes_are_no_text(crm):
    query = "select id as user, photo as name from users"
    with pytest.raises(ConfigurationError) as raised:
        InProcess(shop(crm, query=query))
    assert "row 1: column 'name' has bytes; make text of them, such as hex(name)" in str(raised)
    run = InProcess(shop(crm, query=query.replace("photo", "hex(photo)")))
    click(run, (1, 0), (0, 1))
    assert found(run) == [(1, 0, "00FF")]


def test_a_column_of_bytes_takes_the_bytes_of_a_query(crm):
    pipeline = Pipeline("shop")
    clicks = numbered_clicks(pipeline)
    photos = pipeline.static(
        "photos",
        crm,
        key="user",
        schema={"user": int, "photo": bytes},
        query="select id as user, photo from users",
    )
    joined = clicks.key_by("user").join(photos)
    joined.select("user", "at", name=col("photo").bin.encode("hex")).to("named")
    run = InProcess(pipeline)
    click(run, (1, 0), (2, 1), (0, 2))
    assert found(run) == [(1, 0, "00ff"), (2, 1, None)]


def test_a_number_beyond_the_type_is_a_dead_letter(tmp_path):
    path = tmp_path / "users.parquet"
    users = pl.Series("user", [1, 2**100], pl.Int128)
    pl.DataFrame([users, pl.Series("name", ["Ann", "Bob"])]).write_parquet(path)
    run = InProcess(shop(path))
    (letter,) = run.dead_letters()
    assert (letter["reason"], "users.parquet:2" in letter["value"]) == (
        "column user: number out of range",
        True,
    )
    click(run, (1, 0), (0, 1))
    assert found(run) == [(1, 0, "Ann")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.csv", "", "No such file or directory"),
        ("users.csv", "user,other\n", "no column 'name'; the columns are 'user', 'other'"),
        ("users.csv", "user,name,name\n", "several columns have the name 'name'; the columns are"),
        ("users.csv", "\n", "the first line must name them"),
        ("none.parquet", "", "none.parquet"),
    ],
)
def test_a_table_that_cannot_be_read_stops_the_start(tmp_path, name, text, message):
    if text:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(
        ConfigurationError, match=r"^static table shop\.users\.static from"
    ) as found:
        InProcess(shop(tmp_path / name))
    assert message in str(found.value)


def test_a_query_gives_each_column(tmp_path):
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database:
        database.execute("create table users (user integer)")
        database.commit()
    with pytest.raises(ConfigurationError, match=r"no column 'name'; the columns are 'user'$"):
        InProcess(shop(f"sqlite:{tmp_path}/crm.db", query="select user from users"))


def test_the_address_may_be_a_path(users):
    tables = [
        Pipeline("shop").static("users", address, key="user", schema=USER)
        for address in (users, str(users))
    ]
    by_path, by_text = [each.stream.node.source for each in tables]
    assert by_path
    assert by_text
    assert by_path.static == by_text.static


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("users.xlsx", {}, "static('users'): 'users.xlsx' is not a path that ends with .csv"),
        ("sqlite:crm.db", {}, "sqlite:crm.db is a database; pass query='SELECT ...'"),
        ("users.csv", {"query": "select 1"}, "query is of a database; users.csv is a file"),
        ("users.csv", {"delimiter": "x"}, "delimiter 'x' is not one of"),
        ("users.parquet", {"delimiter": ","}, "delimiter is of CSV; users.parquet is not CSV"),
        ("users.csv", {"reload": "0s"}, "static('users'): reload"),
        ("users.csv", {"schema": {"name": str}}, "static('users'): key"),
        ("postgresql://u:secret@h/d", {}, "postgresql://u:***@h/d is a database"),
    ],
)
def test_mistakes_are_refused(address, options, message):
    with refused(message) as raised:
        shop(address, **options)
    assert "secret" not in str(raised)


def test_two_tables_have_two_names():
    pipeline = shop("users.csv")
    with refused(
        "static('users'): the pipeline already has topic 'shop.users.static'; use the existing "
        "table, or choose another name"
    ):
        pipeline.static("users", "users.csv", key="user", schema=USER)


def test_the_plan_names_the_table_and_not_its_password():
    pipeline = shop("postgresql://u:secret@h/d", query="select 1", reload="1h")
    text = render_text(pipeline.plan())
    assert "static table shop.users.static (user Int64 lenient, name String), key user" in text
    assert "from postgresql://u:***@h/d, read every 1h" in text
    assert "left join with a static table" in text
    assert "secret" not in text + repr(pipeline.plan())


def test_a_join_with_a_static_table_is_a_stream(users):
    pipeline = Pipeline("shop")
    clicks = numbered_clicks(pipeline)
    users_table = pipeline.static("users", str(users), key="user", schema=USER)
    named = clicks.key_by("user").join(users_table)
    named.key_by("name").window(tumbling("10ms")).aggregate(clicks=count()).to("counts")
    run = InProcess(pipeline)
    click(run, (1, 0), (2, 1), (1, 2), (0, 30))
    click(run, (0, 60))
    assert sorted((row["name"], row["clicks"]) for row in run.panes("counts")) == [
        ("Ann", 2),
        ("Bob", 1),
    ]
