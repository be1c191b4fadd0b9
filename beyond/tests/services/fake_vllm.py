"""An HTTP server that answers as vLLM does, with digits for ids; it is what the adapter meets."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

END = 10


class Handler(BaseHTTPRequestHandler):
    """Answers each prompt with one token made of its last character, and END, n times."""

    def do_POST(self):
        """Note the request and answer it."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        self.server.seen.append((self.path, body))
        if self.path in self.server.broken:
            return self._answer(500, {"error": "broken\non purpose"})
        self._answer(200, self._completions(body) if self.path == "/v1/completions" else {})

    def _completions(self, body: dict) -> dict:
        choices = []
        for i, prompt in enumerate(body["prompt"]):
            digit = ord(prompt[-1]) % 10
            for j in range(body["n"]):
                choice = {
                    "index": i * body["n"] + j, "text": str(digit), "finish_reason": "stop",
                    "token_ids": [digit, END], "prompt_token_ids": [ord(c) % 50 for c in prompt],
                    "logprobs": {"token_logprobs": [-0.5 - j, -0.25], "tokens": [str(digit), ""]},
                }
                choices.append({k: v for k, v in choice.items() if k not in self.server.without})
        return {"choices": choices[::-1]}  # the adapter goes by index, not by place

    def _answer(self, code: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def running(without: tuple[str, ...] = (), broken: tuple[str, ...] = ()):
    """Run a server; give (its address, the list of requests that it has seen).

    Args:
        without: parts that its choices lack.
        broken: paths that it answers with an error.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.without, server.broken = [], without, broken
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
