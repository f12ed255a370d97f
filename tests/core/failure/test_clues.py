"""The line that matters, in logs as TensorFlow, Python and CUDA write them."""

import pytest
from tfscale.core.failure.clues import Clue, find_clue, last_words

PEER = (
    "2026-01-01 10:00:00.1: I tensorflow/core/common_runtime/executor.cc:1] [/device:CPU:0] Executor start aborting: "
    "UNAVAILABLE: Collective ops is aborted by: Connection reset by peer from remote task "
    "/job:worker/replica:0/task:1"
)
START = "--- tfscale: generation 1, attempt 1: python train.py"
NOISE = "E0000 00:00:1795249617.0 26849 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: UNKNOWN (303)"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor", "out_of_memory"),
        ("MemoryError: Unable to allocate 64. GiB for an array", "out_of_memory"),
        ("InvalidArgumentError: gradients : Tensor had NaN values", "not_a_number"),
        ('E0000 server_chttp2.cc:40] {"description":"Address already in use"}', "address_in_use"),
        ("OSError: [Errno 28] No space left on device: 'ckpt-7'", "disk_full"),
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__SaveV2}} "
            "/data/own-21_temp/part-00000-of-00001.data-00000-of-00001; No space left on device [Op:SaveV2]",
            "disk_full",
        ),
        ("/usr/bin/python: can't open file '/w/missing.py': [Errno 2] No such file or directory", "no_program"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", "gpu"),
        ("F0000 tensor.cc:800] Check failed: dtype() == expected", "fatal"),
        (PEER, "peer_died"),
        (
            "Collective ops is aborted by: Shape mismatch in the collective instance 231. Op at device "
            "/job:worker/task:0/device:CPU:0 expected shape [1] but another member in the group expected shape [5].",
            "out_of_step",
        ),
        (
            "InternalError: Collective ops is aborted by: Collective instance 291 expected type 0 and data_type 9 "
            "but got type 0 and data_type 1",
            "out_of_step",
        ),
    ],
)
def test_what_a_line_tells(line: str, kind: str) -> None:
    found = find_clue(["Epoch 1/5", NOISE, line, '  File "train.py", line 3, in <module>'])
    assert found is not None
    assert (found.kind, found.line) == (kind, line)


def test_its_own_reason_goes_before_what_followed_from_it() -> None:
    oom = "ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]"
    found = find_clue([PEER, oom, PEER])
    assert found is not None
    assert found.line == oom


def test_the_probes_own_line_goes_before_all_and_is_kept_whole() -> None:
    told = f"tfscale: cannot run: {'write it so ' * 40}".strip()
    lines = ["MemoryError: x", "NameError: name 'json' is not defined", told]
    found = find_clue(lines)
    assert found is not None and (found.kind, found.line) == ("explained", told)
    assert last_words(lines)[-1] == told


def test_the_probes_own_line_is_apart_from_output_without_a_newline() -> None:
    told = "tfscale: cannot run: train.py, line 6: write it so"
    words = last_words(["", "Epoch 1/5", f"3/100 - loss: 0.5{told}"])
    assert words == ("Epoch 1/5", "3/100 - loss: 0.5", told)
    found = find_clue([f"3/100 - loss: 0.5{told}"])
    assert found is not None and found.line == told


def test_who_died_is_read_from_a_peers_log() -> None:
    found = find_clue(["step 4", PEER, "Traceback (most recent call last):", "RuntimeError: Collective ops is aborted"])
    assert found is not None
    assert (found.kind, found.culprit) == ("peer_died", "worker:1")


@pytest.mark.parametrize("lines", [[], ["", "  "], ["Epoch 5/5", "done"], [NOISE], ["there were no Errors: fine"]])
def test_nothing_is_made_up(lines: list[str]) -> None:
    assert find_clue(lines) is None


def test_last_words_are_of_the_last_start_and_hold_the_line_that_matters() -> None:
    before = [START, "ValueError: of the start before", "--- tfscale: generation 1, attempt 1: ended with exit code 1"]
    own = ["OSError: [Errno 28] No space left on device", *(f'  File "m{row}.py", line 1' for row in range(9))]
    tail = [f"cleaning up {row}" for row in range(20)]
    words = last_words([*before, START, *own, *tail, "--- tfscale: generation 1, attempt 1: ended with exit code 1"])
    assert words == ("OSError: [Errno 28] No space left on device", *(f"cleaning up {row}" for row in range(13, 20)))
    assert last_words([*before, START]) == ()
    assert max(map(len, last_words(["ValueError: " + "x" * 999]))) == 300


def test_the_same_line_is_found_again_in_what_was_sent() -> None:
    words = last_words([START, "MemoryError: 64 GiB", *("a line" for _ in range(50))])
    assert len(words) == 8
    assert find_clue(words) == find_clue(["MemoryError: 64 GiB"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "E0000 00:00:1795754467.123456   12345 base_collective_executor.cc:252] StartAbort: Socket closed",
            "StartAbort: Socket closed",
        ),
        (
            "2026-11-27 04:01:21.123456: E tensorflow/core/x/base_collective_executor.cc:252] StartAbort UNAVAILABLE",
            "StartAbort UNAVAILABLE",
        ),
        (
            "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped__X}} Socket closed",
            "UnavailableError: Socket closed",
        ),
        ("KeyError: 'label'", "KeyError: 'label'"),
    ],
)
def test_a_sentence_has_the_message_without_what_a_log_puts_before_it(line: str, message: str) -> None:
    assert Clue("peer_died", "another task had died", line).message == message


@pytest.mark.parametrize(
    ("kind", "line", "is_own"),
    [
        ("exception", "KeyError: 'label'", True),
        ("exception", "InternalError: Collective failed", False),
        ("disk_full", "OSError: [Errno 28] No space left on device", True),
        ("peer_died", "Collective ops is aborted", False),
    ],
)
def test_what_tensorflow_raises_when_a_peer_is_gone_is_no_reason_of_its_own(kind: str, line: str, is_own: bool) -> None:
    assert Clue(kind, "", line).is_own is is_own


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.77.0.2:2222", ("10.77.0.2", 2222)),
        ("ipv6:%5Bfd00::2%5D:2222", ("fd00::2", 2222)),
        ("ipv6:[::1]:80", ("::1", 80)),
        ("no address at all", None),
    ],
)
def test_a_peer_is_named_by_its_address(peer: str, address: tuple[str, int] | None) -> None:
    found = find_clue([f"E0000 Collective ops is aborted by: failed to connect to all addresses; {peer}: refused"])
    assert found is not None
    assert found.address == address


def test_bars_of_megabytes_hide_no_exception_and_take_no_minute() -> None:
    bar = "\b" * 60 + "12/100 [==>...........] - loss: 0.1"
    log = [bar * 10_000] * 300 + [
        "Traceback (most recent call last):",
        '  File "train.py", line 3',
        "ValueError: no data",
    ]
    words = last_words(log, 1)
    assert words[-1] == "ValueError: no data" and max(map(len, words)) <= 300
    explained = last_words([f"{bar * 10_000}tfscale: cannot run: give it data"], 1)
    assert explained[-1] == "tfscale: cannot run: give it data"
