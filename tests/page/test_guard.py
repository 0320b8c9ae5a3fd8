"""The server is attacked: other hosts, other origins, no secret, too much, what is no question, a client that goes away."""

import http.client
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

import pathexp as px
from pathexp.expansion.search import stopped_by
from pathexp.page import server
from pathexp.page.guard import MOST_BODY
from pathexp.page.session import Session
from pathexp.page.view import View

TEXT = "To be, or not to be"


@pytest.fixture(scope="module")
def page():
    page = px.explore(px.load("attn-2l"), TEXT)
    yield page
    page.stop()
    assert not page.running


def send(page, path="", body=None, method=None, secret=True, **headers):
    parts = urlsplit(page.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    place = (parts.path if secret else "/") + path
    given = None if body is None else body if isinstance(body, bytes | str) else json.dumps(body)
    connection.request(method or ("GET" if body is None else "POST"), place, given,
                       {name.replace("_", "-"): value for name, value in headers.items()})  # fmt: skip
    response = connection.getresponse()
    said = response.read()
    connection.close()
    return response, said


def test_the_page_and_its_files_are_served_with_a_policy_that_allows_no_other_script(page):
    for name in ("", "main.js", "style.css"):
        response, said = send(page, name)
        assert response.status == 200 and said
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    assert b"<script>" not in send(page)[1] and b"onclick" not in send(page)[1]


def test_it_listens_on_the_loopback_address_alone(page):
    assert urlsplit(page.url).hostname == "127.0.0.1"
    sockets = page.server.servers[0].sockets
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1"]


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Host": "127.0.0.1"}, {"Host": "127.0.0.1:1"}, {"Host": ""},
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "https://127.0.0.1"},
    {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
])  # fmt: skip
@pytest.mark.parametrize("path", ["", "main.js", "api/start", "api/run"])
def test_foreign_hosts_and_origins_are_refused(page, headers, path):
    response, said = send(page, path, {"text": TEXT} if path == "api/run" else None, **headers)
    assert response.status == 403 and b"Macbeth" not in said and TEXT.encode() not in said
    assert "content-security-policy" in response.headers


@pytest.mark.parametrize("path", ["", "x/", "x/api/start", "api/start", "%00/", "%C3%A9/", "//"])
def test_without_the_secret_nothing_is_told(page, path):
    response, said = send(page, path, secret=False)
    assert response.status == 403 and TEXT.encode() not in said and b"secret" in said


def test_secrets_differ_and_are_long(page):
    other = px.explore(px.load("attn-1l"), TEXT)
    other.stop()
    one, two = (urlsplit(each.url).path.strip("/") for each in (page, other))
    assert one != two and len(one) >= 22


@pytest.mark.parametrize(
    "name", ["../server.py", "%2e%2e%2fserver.py", "..%5cserver.py", "/etc/passwd", "x.js", "__init__.py"]
)
def test_no_other_files(page, name):
    response, said = send(page, name)
    assert response.status in (403, 404, 405) and b"import" not in said


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b"nul", b'{"text": NaN}']
)
def test_what_is_no_question_is_refused_in_words(page, body):
    response, said = send(page, "api/run", body)
    assert response.status in (200, 400)
    if response.status == 400:
        assert json.loads(said)["error"]


def test_a_text_of_a_million_characters_is_refused_in_words(page):
    response, said = send(page, "api/run", {"text": "a" * 10**6})
    assert response.status == 400 and f"{MOST_BODY:,} bytes" in json.loads(said)["error"][0]
    response, said = send(page, "api/run", {"text": "a" * 100_000})
    assert response.status == 400 and "20,000 characters" in json.loads(said)["error"][0]


def test_a_broken_query_and_a_panel_that_is_not_there_are_refused_in_words(page):
    response, said = send(page, "api/branch", {"text": TEXT, "query": "E ("})
    assert response.status == 400 and any("^" in line for line in json.loads(said)["error"])
    response, said = send(page, "api/nothing", {"text": TEXT})
    assert response.status == 400 and "no panel" in json.loads(said)["error"][0]


def test_questions_are_posted_so_that_no_link_can_ask(page):
    assert send(page, "api/run")[0].status in (404, 405)


def test_a_port_in_use_is_said(page):
    with pytest.raises(px.PathexpError, match="cannot listen on port"):
        px.explore(px.load("attn-1l"), TEXT, port=urlsplit(page.url).port)
    with pytest.raises(px.PathexpError, match="cannot listen on port 99999"):
        px.explore(px.load("attn-1l"), TEXT, port=99999)


def test_a_search_ends_when_nobody_waits_for_it_and_blocks_no_small_question():
    deep = px.random_model(
        layers=16, heads=12, d_model=48, d_head=4, d_mlp=96, d_vocab=50, n_ctx=16, norm="rmsnorm", seed=1
    )
    page = px.explore(deep, "1 2 3 4 5 6 7 8")
    parts = urlsplit(page.url)
    body = json.dumps({"text": "1 2 3 4 5 6 7 8", "k": 200, "seconds": 600})
    gone = socket.create_connection((parts.hostname, parts.port))
    gone.sendall(
        f"POST {parts.path}api/prove HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    assert gone.recv(4096)
    assert send(page, "api/query", {"text": "1 2 3 4 5 6 7 8", "query": "E U"})[0].status == 200
    gone.close()
    waiting = page.served.long.submit(lambda: "free")
    assert waiting.result(timeout=120) == "free"
    page.stop()


def test_many_clients_that_vanish_do_no_harm(page):
    parts = urlsplit(page.url)
    for _ in range(20):
        with socket.create_connection((parts.hostname, parts.port)) as vanishing:
            vanishing.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{")
    assert send(page, "api/run", {"text": TEXT})[0].status == 200


def test_explore_takes_runs_and_models_and_targets_that_are_logits():
    trace = px.load("attn-1l").run(TEXT)
    with pytest.raises(px.PathexpError, match="not both"):
        px.explore(trace, "more")
    with pytest.raises(px.PathexpError, match="a run or a model"):
        px.explore("attn-1l")
    with pytest.raises(px.PathexpError, match="a logit or the difference"):
        px.explore(trace, target=2 * trace.logit(3))
    page = px.explore(trace, target=trace.logit_difference(" the", " a", position=2))
    start = json.loads(send(page, "api/start")[1])
    page.stop()
    assert start["view"]["position"] == 2 and start["view"]["text"] == TEXT
    assert start["view"]["target"] == trace.model.token_id(" the") and start["view"][
        "versus"
    ] == trace.model.token_id(" a")


def test_in_a_notebook_it_is_a_frame_and_a_link(page):
    html = page._repr_html_()
    assert f'<iframe src="{page.url}"' in html and "<script" not in html


def test_stopped_twice_is_stopped():
    page = px.explore(px.load("attn-1l"), TEXT)
    page.stop()
    page.stop()
    page.wait()
    assert not page.running


def test_a_text_that_would_fill_the_memory_is_refused_with_the_length_that_is_not():
    model = px.random_model(layers=40, heads=40, d_model=8, d_head=2, d_vocab=5, n_ctx=5_000)
    with pytest.raises(px.PathexpError, match=r"takes 40\.0 GB; a page takes up to 197 tokens"):
        Session(model, View()).ask("run", {"text": "1 " * 1_250})


def test_a_question_that_takes_too_long_is_given_up(monkeypatch, page):
    monkeypatch.setattr(server, "LONGEST", 0.2)
    monkeypatch.setattr(page.served.session, "ask", lambda *given: time.sleep(1.0) or {})
    response, said = send(page, "api/run", {"text": TEXT})
    assert response.status == 400 and "takes more than 0.2 s" in json.loads(said)["error"][0]


def test_a_fault_is_told_on_the_terminal_and_not_on_the_page(monkeypatch, page, caplog):
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    monkeypatch.setattr(page.served.session, "ask", lambda *given: 1 / 0)
    response, said = send(page, "api/run", {"text": TEXT})
    assert response.status == 500 and b"Zero" not in said
    for _ in range(100):  # the answer is sent before the fault is told
        if "ZeroDivisionError" in caplog.text:
            break
        time.sleep(0.05)
    assert "ZeroDivisionError" in caplog.text


def test_a_request_without_a_path_is_refused(page):
    parts = urlsplit(page.url)
    with socket.create_connection((parts.hostname, parts.port)) as client:
        client.sendall(f"OPTIONS * HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(4096).split(b" ")[1] in (b"400", b"403")


def test_stopping_the_page_ends_what_runs():
    deep = px.random_model(
        layers=16, heads=12, d_model=48, d_head=4, d_mlp=96, d_vocab=50, n_ctx=16, norm="rmsnorm", seed=1
    )
    page = px.explore(deep, "1 2 3 4 5 6 7 8")
    parts, body = urlsplit(page.url), json.dumps({"text": "1 2 3 4 5 6 7 8", "k": 200, "seconds": 600})
    with socket.create_connection((parts.hostname, parts.port)) as client:
        client.sendall(
            f"POST {parts.path}api/prove HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert client.recv(4096)
        while not page.served.running:
            time.sleep(0.01)
        (stop,) = page.served.running
        assert not stop.is_set()
        page.stop()
    page.served.long.shutdown(wait=True)
    assert stop.is_set() and not page.running


def test_a_second_search_of_a_name_takes_the_place_of_the_first():
    deep = px.random_model(
        layers=16, heads=12, d_model=48, d_head=4, d_mlp=96, d_vocab=50, n_ctx=16, norm="rmsnorm", seed=1
    )
    page = px.explore(deep, "1 2 3 4 5 6 7 8")
    parts = urlsplit(page.url)
    body = json.dumps({"text": "1 2 3 4 5 6 7 8", "k": 200, "seconds": 600, "search": "one"})
    asked = f"POST {parts.path}api/prove HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    with (
        socket.create_connection((parts.hostname, parts.port)) as one,
        socket.create_connection((parts.hostname, parts.port)) as two,
    ):
        one.sendall(asked.encode())
        while "one" not in page.served.searches:
            time.sleep(0.01)
        first = page.served.searches["one"]
        two.sendall(asked.encode())
        while page.served.searches.get("one") in (first, None):
            time.sleep(0.01)
        second = page.served.searches["one"]
        assert first.is_set() and not second.is_set()
        while first in page.served.running:  # it ends at its next step, and leaves the name to the second
            time.sleep(0.01)
        assert page.served.searches["one"] is second
        assert json.loads(send(page, "api/stop", {"search": "one"})[1]) == {"stopped": True}
        assert second.is_set()
    page.stop()


def test_a_tree_that_was_stopped_is_not_kept():
    subject = Session(px.load("attn-2l"), View(TEXT)).subject(View(TEXT))
    with stopped_by(lambda: True), pytest.raises(px.PathexpError, match="ask again"):
        subject.tree("back")
    assert subject.tree("back").nodes > 1


def test_a_text_too_long_for_a_page_is_refused_before_it_is_served():
    with pytest.raises(px.PathexpError, match="20,000 characters"):
        px.explore(px.load("attn-1l"), "a" * 20_001)


def test_the_command_serves_until_it_is_interrupted():
    process = subprocess.Popen(
        [sys.executable, "-m", "pathexp", "explore", "attn-1l", TEXT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = next(line for line in process.stdout if "http://" in line)
    url = re.search(r"http://\S+/", line)[0]
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", parts.path)
    assert connection.getresponse().status == 200
    next(line for line in process.stdout if "Open the address" in line)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err
