"""The endpoints for programs, called by Gradio's own client on a served toy page: schemas, limits, streams, Stop, errors."""

from __future__ import annotations

import base64
import http.client
import io
import itertools
import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

from app.api import PALETTES
from app.asking import DRAFTERS, make_ticket
from app.models import LABELS
from fovea_core.render import heat
from fovea_core.settings import MAX_QUESTION_CHARS, SettingsError
from fovea_core.trace.codec import decode
from fovea_core.trace.differences import differences, mean_entries, overlaps
from fovea_core.trace.fold import fold
from fovea_core.trace.laws import checked
from fovea_core.trace.record import read
from tests.sample_traces import sample_lines
from tests.served import TOKENS, Served, at_full_speed, post, served_client, served_page, toy_file, upload  # noqa: F401 (fixtures)
from tests.test_app import QUESTION, right
from tests.toys import toy_picture

NAMES = ("/explain", "/compare", "/render_filmstrip", "/models")


def test_exactly_four_endpoints_with_described_values(served):
    """Each value has a name, a JSON type and a sentence; each endpoint says what it does, gives and an example of a call."""
    info = json.load(urllib.request.urlopen(f"{served.url}gradio_api/info"))
    assert set(info["named_endpoints"]) == set(NAMES) and info["unnamed_endpoints"] == {}
    for name, endpoint in info["named_endpoints"].items():
        assert "Example: client." in endpoint["description"] and f'"{name}"' in endpoint["description"]
        for value in endpoint["parameters"]:
            assert value["type"].get("type") and value["python_type"]["description"], f"{name} {value}"
            assert value["parameter_has_default"] or value["parameter_name"] in ("picture", "question", "trace")
    defaults = {v["parameter_name"]: v["parameter_default"] for v in info["named_endpoints"]["/explain"]["parameters"]}
    wanted = {"drafter": "builtin", "tree": "auto", "max_new_tokens": 256, "temperature": 0, "top_p": 1, "seed": 0}
    assert defaults.items() >= (wanted | {"policy": "fovea", "compare": True}).items()


def test_explain_streams_a_growing_lawful_trace_that_is_plain_decoding(client, picture, tmp_path):
    streamed = list(client.submit(picture, QUESTION, max_new_tokens=TOKENS, api_name="/explain"))
    for before, after in itertools.pairwise(streamed):
        assert after[: len(before)] == before
    lines = streamed[-1]
    summary = fold(checked(decode(line) for line in lines[1:]))
    assert summary.ids == right(0, QUESTION, TOKENS) and summary.compared.same_ids
    (tmp_path / "run.jsonl").write_text("\n".join(lines) + "\n")
    trace = read(tmp_path / "run.jsonl")
    assert len(trace.events) == len(lines) - 1
    assert Image.open(io.BytesIO(trace.header.picture_bytes())).size == (60, 40)


def test_a_streamed_trace_becomes_a_strip(client, picture, tmp_path):
    """The file is what the command line writes of the same trace."""
    from fovea_core.render import exported

    file = tmp_path / "${1+1}<img src=x>.jsonl"
    file.write_text("\n".join(sample_lines()) + "\n")
    for words, chosen in (("", None), ("3, 7-9", [3, 7, 8, 9])):
        path = client.predict(handle_file(str(file)), words, "cividis", api_name="/render_filmstrip")
        with Image.open(path) as strip:
            assert strip.format == "PNG" and round(strip.info["dpi"][0]) == 300
        assert Path(path).read_bytes() == exported(read(file), "strip", words=chosen, palette="cividis")


def test_compare_gives_both_folds_and_what_sets_them_apart(client, picture):
    result = client.predict(
        picture, QUESTION, "builtin", "fovea", "builtin", "dense", max_new_tokens=TOKENS, api_name="/compare"
    )
    assert set(result) == {"a", "b", "differences"}
    for way, policy in (("a", "fovea"), ("b", "dense")):
        assert result[way]["token_ids"] == right(0, QUESTION, TOKENS)
        assert result[way]["policy"] == policy and result[way]["same_ids"] and result[way]["speedup"] > 0
    found = result["differences"]
    assert found["same_ids"] and found["first_difference"] is None
    assert found["tau"] == pytest.approx(result["b"]["tau"] - result["a"]["tau"])
    assert result["b"]["entries"] in (None, 16.0)  # dense takes all entries of the toy's grid
    assert (found["overlap"] is None) == (found["positions"] == 0)


def test_compare_streams_where_it_is(client, picture):
    steps = list(
        client.submit(picture, QUESTION, "none", "none", "lookup", "none", max_new_tokens=4, compare=False, api_name="/compare")
    )
    ways = [step["running"] for step in steps if "running" in step]
    assert ways == sorted(ways) and set(ways) == {"a", "b"} and "differences" in steps[-1]
    assert steps[-1]["a"]["plain_ms"] is None and steps[-1]["differences"]["entries"] is None


def test_models_says_what_is_loaded_and_the_limits(client, served):
    said = client.predict(api_name="/models")
    assert said["target"] == {"id": "toy-0", "fingerprint": "", "device": "cpu"}
    assert said["drafters"] == list(DRAFTERS) and said["palettes"] == list(heat.PALETTES) == list(PALETTES)
    assert list(said["labels"]) == said["drafters"] and said["labels"]["trie"] == LABELS["trie"] and said["note"] is None
    assert said["limits"]["max_new_tokens"] == [1, 512] and said["limits"]["question_chars"] == MAX_QUESTION_CHARS
    model = served.session._model
    engine, model.engine = model.engine, None
    try:
        assert client.predict(api_name="/models")["target"] is None
    finally:
        model.engine = engine


TICKET = {"question": QUESTION, "drafter": "none", "policy": "fovea", "tree": "auto", "compare": False}
TICKET |= {"max_new_tokens": 4, "temperature": 0, "top_p": 1, "seed": 0}
BAD = [
    ({"max_new_tokens": 10**9}, "max_new_tokens"),
    ({"max_new_tokens": 513}, "1 to 512"),
    ({"max_new_tokens": -1}, "max_new_tokens"),
    ({"max_new_tokens": 0}, "max_new_tokens"),
    ({"max_new_tokens": "abc"}, "write a number"),
    ({"max_new_tokens": 2.5}, "max_new_tokens"),
    ({"max_new_tokens": None}, "write a number"),
    ({"max_new_tokens": True}, "write a number"),
    ({"max_new_tokens": [5]}, "write a number"),
    ({"temperature": -1}, "temperature"),
    ({"temperature": 2.5}, "0 to 2"),
    ({"temperature": {"a": 1}}, "write a number"),
    ({"top_p": 0}, "top_p"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**31}, "seed"),
    ({"tree": "1000000,1000000,1000000"}, "tree"),
    ({"tree": "64,1000,500"}, "tree"),
    ({"tree": ["6,6,40"]}, "tree must be text"),
    ({"tree": {"depth": 6}}, "tree must be text"),
    ({"policy": "topk-0"}, "policy"),
    ({"policy": ["fovea"]}, "policy"),
    ({"policy": "x" * 10_000}, "policy"),
    ({"drafter": "../../etc/passwd"}, "drafter"),
    ({"drafter": {}}, "drafter"),
    ({"question": ""}, "Please ask a question"),
    ({"question": " \u200b "}, "Please ask a question"),
    ({"question": None}, "Please ask a question"),
    ({"question": ["a"]}, "must be text"),
    ({"question": "x" * (MAX_QUESTION_CHARS + 1)}, "characters"),
    ({"picture": None}, "bring a picture"),
]


@pytest.mark.parametrize("change, said", BAD, ids=[f"{n}-{next(iter(change))}" for n, (change, _) in enumerate(BAD)])
def test_what_the_page_refuses_the_api_refuses_before_any_model_work(served, client, picture, change, said):
    """shared case 'API called directly': one short sentence, nothing drafted, nothing kept, and the next call works."""
    worked = []
    served.session._work, before = lambda *_: worked.append(1), served.session._work
    try:
        with pytest.raises(AppError) as caught:
            client.predict(**({"picture": picture, "question": QUESTION} | change), api_name="/explain")
    finally:
        served.session._work = before
    text = str(caught.value)
    assert said in text and "\n" not in text and len(text) < 200
    assert not worked and not served.session._tickets


def test_numbers_that_are_none(served, client, picture):
    """NaN and infinity, which no JSON has, in a request written by hand; the ticket refuses them by itself as well."""
    for value in ("NaN", "Infinity"):
        event = post(served, f'[{json.dumps(upload(served))}, "what?", "none", "fovea", "auto", 4, {value}, 1, 0, false]')
        said = urllib.request.urlopen(f"{served.url}gradio_api/call/explain/{event}").read().decode()
        assert "event: error" in said and "temperature" in said
        for name in ("max_new_tokens", "temperature", "top_p", "seed"):
            with pytest.raises(SettingsError, match=name):
                make_ticket(**(TICKET | {"path": picture["path"], name: float(value)}))


def test_compare_refuses_the_second_way_before_running_the_first(served, client, picture):
    before = served.slow.proposed
    with pytest.raises(AppError, match="policy"):
        client.predict(picture, QUESTION, "lookup", "none", "lookup", "best", api_name="/compare")
    assert served.slow.proposed == before


@pytest.mark.parametrize(
    "name, data, said",
    [
        ("empty.png", b"", "empty"),
        ("note.png", b"hello, I am no picture", "not a picture"),
        ("cut.png", None, "damaged or cut off"),
        ("page.png", b"%PDF-1.4", "PDF"),
    ],
)
def test_a_bad_picture_is_one_sentence(client, tmp_path, name, data, said):
    if data is None:
        buffer = io.BytesIO()
        toy_picture(0, 400, 300).save(buffer, "PNG")
        data = buffer.getvalue()[:-400]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AppError, match=said):
        client.predict(handle_file(str(tmp_path / name)), QUESTION, api_name="/explain")


@pytest.mark.parametrize(
    "lines, values, said",
    [
        (["nothing"], {}, "not a trace"),
        ([json.dumps({"format": "fovea-trace", "version": 9})], {}, "newer explorer"),
        (sample_lines()[:1], {}, "no event"),
        ([*sample_lines()[:3], "{}"], {}, "damaged"),
        (sample_lines(), {"words": "no"}, "no numbers of words"),
        (sample_lines(), {"words": "9999"}, "word"),
        (sample_lines(), {"words": 3}, "must be text"),
        (sample_lines(), {"palette": "${7*7}"}, "no palette"),
        (None, {}, "bring a trace"),
    ],
)
def test_a_bad_trace_is_one_sentence(client, tmp_path, lines, values, said):
    trace = None
    if lines is not None:
        (tmp_path / "run.jsonl").write_text("\n".join(lines) + "\n")
        trace = handle_file(str(tmp_path / "run.jsonl"))
    with pytest.raises(AppError, match=said):
        client.predict(trace, **values, api_name="/render_filmstrip")


def test_an_error_inside_the_run_is_one_sentence_after_what_came(served, client, picture):
    calls = []

    def hook():
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("broken\non purpose")

    served.slow.hook = hook
    try:
        job = client.submit(picture, QUESTION, "lookup", max_new_tokens=60, api_name="/explain")
        with pytest.raises(AppError, match="broke off \\(RuntimeError\\)"):
            job.result(60)
    finally:
        served.slow.hook = lambda: None
    assert max(map(len, job.outputs())) > 3
    assert client.predict(picture, QUESTION, "lookup", max_new_tokens=4, compare=False, api_name="/explain")


def begin(served, client, picture, name="/explain", **values):
    """A long run under way, some rounds in."""
    served.slow.delay_s = 0.1
    before = served.slow.proposed
    ways = {"drafter_a": "lookup", "drafter_b": "lookup"} if name == "/compare" else {"drafter": "lookup"}
    job = client.submit(picture=picture, question=QUESTION, max_new_tokens=400, **ways, **values, api_name=name)
    until = time.monotonic() + 30
    while served.slow.proposed < before + 3:
        assert time.monotonic() < until and not job.done(), "the run did not begin"
        time.sleep(0.02)
    return job


@pytest.mark.parametrize("name", ["/explain", "/compare"])
def test_cancelling_a_call_frees_the_engine_within_a_round(served, client, picture, name):
    """Nothing more is drafted than the round under way when the server heard of it, and the next call is answered."""
    job = begin(served, client, picture, name)
    job.cancel()
    served.idle(5)
    after = served.slow.proposed
    time.sleep(0.5)
    assert served.slow.proposed == after
    served.slow.delay_s = 0.0
    assert client.predict(picture, QUESTION, "lookup", max_new_tokens=4, compare=False, api_name="/explain")


def test_a_client_that_vanishes_frees_the_engine(served):
    """A bare connection, closed in the middle of its stream: no goodbye is sent."""
    served.slow.delay_s = 0.1
    event = post(served, json.dumps([upload(served), QUESTION, "lookup", "fovea", "auto", 400, 0, 1, 0, False]))
    before = served.slow.proposed
    stream = http.client.HTTPConnection(served.url.split("/")[2])
    stream.request("GET", f"/gradio_api/call/explain/{event}")
    answer = stream.getresponse()
    while served.slow.proposed < before + 3:
        answer.readline()
    stream.sock.close()
    answer.close()
    served.idle(5)
    after = served.slow.proposed
    time.sleep(0.5)
    assert served.slow.proposed == after


def test_calls_wait_their_turn_and_keep_their_own_answers(served, picture, tmp_path):
    """Two clients at once, and a client with two calls: each gets its own picture's answer; one waits with its header alone."""
    served.slow.delay_s = 0.02
    toy_picture(1).save(tmp_path / "other.png")
    asked = [(picture, 0), (handle_file(str(tmp_path / "other.png")), 1), (picture, 0)]
    clients = [Client(served.url, verbose=False) for _ in range(2)]
    jobs = [
        clients[n // 2].submit(file, QUESTION, "lookup", max_new_tokens=TOKENS, compare=False, api_name="/explain")
        for n, (file, _) in enumerate(asked)
    ]
    for job, (_, number) in zip(jobs, asked):
        lines = job.result(60)
        assert fold(decode(line) for line in lines[1:]).ids == right(number, QUESTION, TOKENS)
    assert any(len(lines) == 1 for job in jobs for lines in job.outputs())
    for client in clients:
        client.close()


def test_differences_against_a_count_by_hand():
    """b - a of each figure; overlap by sets; nothing after the first token that differs."""
    one, other = (fold(decode(line) for line in sample_lines(seed=seed)[1:]) for seed in (7, 8))
    found = differences(one, other)
    assert found["rounds"] == other.rounds - one.rounds and found["accepted"] == other.accepted - one.accepted
    assert found["entries"] == pytest.approx(mean_entries(other) - mean_entries(one))
    shared = {}
    for a, b in zip(one.tokens, other.tokens):
        if a.token != b.token:
            break
        if a.read and b.read:
            sets = [set(base64.b64decode(t.read.entries)[::2]) for t in (a, b)]  # the sample's 196 entries fit one byte
            shared[a.position] = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    assert overlaps(one, other) == pytest.approx(shared) and found["positions"] == len(shared) > 0
    assert found["overlap"] == pytest.approx(sum(shared.values()) / len(shared))
    assert differences(one, one) | {"overlap": 1.0, "same_ids": True, "first_difference": None} == differences(one, one)
    cut = fold(decode(line) for line in sample_lines()[1:-4])
    assert differences(one, cut)["first_difference"] == len(cut.ids) and not differences(one, cut)["same_ids"]
