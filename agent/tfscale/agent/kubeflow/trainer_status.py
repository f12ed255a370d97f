"""Status of the training for the server of Kubeflow's Trainer, which a TrainJob then shows (`kubectl get trainjob`).

With the feature gate TrainJobRuntimeStatus the Trainer gives each pod the address of that server, the file of its
authority and the file of a token that is renewed. The agent of the lead posts there what the probe knows. The schema is
`UpdateTrainJobStatusRequest` of kubeflow-trainer-api 2.3.
"""

from __future__ import annotations

import contextvars
import json
import logging
import math
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tfscale.core.records.training import Training, training_numbers

URL, AUTHORITY, TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{each}" for each in ("URL", "CA_CERT", "TOKEN"))
_PERIOD = 30.0
"""Seconds between two posts; the Trainer asks for 5 or more, as each is a write to the cluster's store."""
_PATIENCE = 10.0
"""Seconds for the server to take a connection, and to say each part of its answer."""
LAST_PATIENCE = 3.0
"""Seconds by which the last post may delay the agent's end."""
_UNFINISHED = 99
"""Highest percentage before the training has ended well."""

_logger = logging.getLogger(__name__)


class TrainerStatus:
    """Poster of the status. Each post has a thread: a server that hangs must not delay the agent."""

    def __init__(self, url: str, authority: Path | None, token: Path, period: float = _PERIOD) -> None:
        self._url, self._authority, self._token, self._period = url, authority, token, period
        self._due = 0.0
        self._sending: threading.Thread | None = None
        self._trouble = ""
        """Reason of the newest failure, which is in the log; empty while the server takes what it is sent."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> TrainerStatus | None:
        """Return the poster for the server of these variables; None outside of such a TrainJob."""
        url, token, authority = (environment.get(each, "") for each in (URL, TOKEN, AUTHORITY))
        if not url:
            return None
        if urlsplit(url).scheme != "https" or not token:
            _logger.warning("the status is not posted: %s needs an https:// address, and %s a file", URL, TOKEN)
            return None
        return cls(url, Path(authority) if authority else None, Path(token))

    def look(self, training: Training | None) -> None:
        """Post the state of the training, if it is time; call it each second."""
        is_busy = self._sending is not None and self._sending.is_alive()
        if training is not None and not is_busy and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._period
            self._send(status(training))

    def finish(self, training: Training | None, *, is_done: bool) -> None:
        """Post the last state, and wait for it for at most `LAST_PATIENCE`; `is_done`: the program has ended well."""
        if training is None and not is_done:
            return
        self._send(status(training or Training(), is_over=True, is_done=is_done)).join(LAST_PATIENCE)

    def _send(self, given: Mapping[str, Any]) -> threading.Thread:
        # In a copy of the context, so that its lines of the log name the same task.
        run = contextvars.copy_context().run
        self._sending = threading.Thread(target=run, args=(self._post, given), name="trainer-status", daemon=True)
        self._sending.start()
        return self._sending

    def _post(self, given: Mapping[str, Any]) -> None:
        try:
            self._request(json.dumps({"trainerStatus": given}).encode())
        except (OSError, ValueError, HTTPException) as error:
            if not self._trouble:
                _logger.warning("the status is not posted to Kubeflow's Trainer, trying on: %s: %s", self._url, error)
            self._trouble = str(error) or repr(error)
        else:
            if self._trouble:
                _logger.warning("the status is posted to Kubeflow's Trainer again")
            self._trouble = ""

    def _request(self, body: bytes) -> None:
        """Post a message. Authority and token are read each time, as both are renewed.

        Raises OSError, ValueError and HTTPException.
        """
        trust = ssl.create_default_context(cafile=self._authority)
        headers = {"Authorization": f"Bearer {self._token.read_text().strip()}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, body, headers, method="POST")
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trust), _NoRedirect())
        with opener.open(request, timeout=_PATIENCE):
            pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refusal to follow: the token is for this server alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def status(training: Training, *, is_over: bool = False, is_done: bool = False) -> dict[str, Any]:
    """Return the message's `trainerStatus`: what is not known is left out."""
    share, left = training.share_done, training.time_left
    fields: dict[str, Any] = {"lastUpdatedTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    if is_done:
        fields |= {"progressPercentage": 100, "estimatedRemainingSeconds": 0}
    elif share is not None:
        fields["progressPercentage"] = min(_UNFINISHED, math.floor(share * 100))
        # The script may go on after a `fit`, and nothing is left for one that has failed.
        if left and not is_over:
            fields["estimatedRemainingSeconds"] = round(left)
    numbers = [{"name": name, "value": f"{value:.6g}"} for name, value in training_numbers(training).items()]
    return fields | ({"metrics": numbers} if numbers else {})
